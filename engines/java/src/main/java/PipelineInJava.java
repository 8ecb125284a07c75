import java.io.File;
import org.apache.avro.generic.GenericRecord;
import org.apache.beam.fn.harness.ExternalWorkerService;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.StartWorkerRequest;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.StartWorkerResponse;
import org.apache.beam.model.pipeline.v1.ExternalTransforms.SchemaTransformPayload;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.coders.RowCoder;
import org.apache.beam.sdk.extensions.avro.coders.AvroCoder;
import org.apache.beam.sdk.extensions.avro.schemas.utils.AvroUtils;
import org.apache.beam.sdk.io.FileIO;
import org.apache.beam.sdk.io.parquet.ParquetIO;
import org.apache.beam.sdk.options.Description;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.PortablePipelineOptions;
import org.apache.beam.sdk.options.Validation.Required;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.schemas.Schema.FieldType;
import org.apache.beam.sdk.schemas.SchemaTranslation;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.Filter;
import org.apache.beam.sdk.transforms.Flatten;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.transforms.SerializableFunction;
import org.apache.beam.sdk.transforms.join.CoGroupByKey;
import org.apache.beam.sdk.transforms.join.KeyedPCollectionTuple;
import org.apache.beam.sdk.util.CoderUtils;
import org.apache.beam.sdk.util.construction.External;
import org.apache.beam.sdk.fn.server.GrpcFnServer;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.PCollectionList;
import org.apache.beam.sdk.values.PInput;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TupleTag;
import org.apache.beam.sdk.values.TypeDescriptor;
import org.apache.beam.sdk.values.TypeDescriptors;
import org.apache.beam.vendor.grpc.v1p69p0.com.google.protobuf.ByteString;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.stub.StreamObserver;

/**
 * Labels the bright regions of a volume: the transforms are Python's, what lies between is Java's.
 *
 * <pre>
 * beam-volumes expansion-service --port 8097 &
 * python -m apache_beam.runners.portability.local_job_service_main --port 8073 &
 * java -jar target/java-pipeline.jar --runner=PortableRunner --jobEndpoint=localhost:8073 \
 *   --expansion=localhost:8097 --input=em.zarr --output=cells.zarr --table=cells
 * </pre>
 */
public class PipelineInJava {
  public interface Options extends PipelineOptions {
    @Required
    @Description("Where beam-volumes expansion-service listens")
    String getExpansion();

    void setExpansion(String value);

    @Required
    String getInput();

    void setInput(String value);

    @Required
    String getOutput();

    void setOutput(String value);

    @Description("Where the joined table is written as Parquet: the start of its files' names. Not written by default")
    String getTable();

    void setTable(String value);
  }

  static final FieldType NUMBERS = FieldType.array(FieldType.INT64);

  /** How the slabs are cut. */
  static final Schema GRID =
      Schema.builder().addStringField("input").addInt64Field("depth").build();

  /** What a transform of the service is configured by: fields that are left out have their defaults. */
  static byte[] payload(String name, Row config) throws Exception {
    Schema schema = config.getSchema();
    return SchemaTransformPayload.newBuilder()
        .setIdentifier("beam:schematransform:beam_volumes:" + name + ":v1")
        .setConfigurationSchema(SchemaTranslation.schemaToProto(schema, true))
        .setConfigurationRow(
            ByteString.copyFrom(CoderUtils.encodeToByteArray(RowCoder.of(schema), config)))
        .build()
        .toByteArray();
  }

  static <T extends PInput> PTransform<T, PCollection<Row>> transform(
      Options options, String name, Row config) throws Exception {
    String urn = "beam:expansion:payload:schematransform:v1";
    return External.<T, Row>of(urn, payload(name, config), options.getExpansion());
  }

  static <T> MapElements<T, String> printing(String name, SerializableFunction<T, String> line) {
    return MapElements.into(TypeDescriptors.strings())
        .via(
            (T element) -> {
              System.out.println(name + " " + line.apply(element));
              return name;
            });
  }

  public static void main(String[] args) throws Exception {
    Options options = PipelineOptionsFactory.fromArgs(args).withValidation().as(Options.class);
    // Java's steps run in this process. LOOPBACK would do that too, but not where a pipeline has transforms of
    // an expansion service: those ask for the address of the worker before it has one.
    // Each worker has its own options: a worker that ends, such as between two stages on Flink, closes the
    // threads of its options. With shared options, Flink would wait for the next worker without end.
    GrpcFnServer<ExternalWorkerService> workers =
        new ExternalWorkerService(options) {
          @Override
          public void startWorker(
              StartWorkerRequest request, StreamObserver<StartWorkerResponse> answer) {
            PipelineOptions fresh = PipelineOptionsFactory.fromArgs(args).as(Options.class);
            new ExternalWorkerService(fresh).startWorker(request, answer);
          }
        }.start();
    PortablePipelineOptions portable = options.as(PortablePipelineOptions.class);
    portable.setDefaultEnvironmentType("EXTERNAL");
    portable.setDefaultEnvironmentConfig(workers.getApiServiceDescriptor().getUrl());
    Pipeline pipeline = Pipeline.create(options);

    Schema reading =
        Schema.builder()
            .addStringField("input")
            .addStringField("steps")
            .addInt64Field("depth")
            .addInt64Field("halo")
            .build();
    Row read =
        Row.withSchema(reading)
            .addValues(
                options.getInput(),
                "{smooth: {op: gaussian_filter, sigma: 1}, bright: {op: greater, inputs: [smooth, 140]}}",
                8L,
                1L)
            .build();
    PCollection<Row> bright =
        pipeline.apply("Bright", PipelineInJava.transform(options, "read_slabs", read));

    // Java reads slabs as rows: how many voxels of each are bright, the halo included.
    bright
        .apply(
            "Count",
            MapElements.into(TypeDescriptors.strings())
                .via(
                    slab -> {
                      int count = 0;
                      for (byte voxel : slab.getBytes("data")) count += voxel;
                      return slab.getInt64("z") + ": " + slab.getString("dtype") + " " + count;
                    }))
        .apply(
            "Print",
            MapElements.into(TypeDescriptors.strings())
                .via(
                    line -> {
                      System.out.println("slab " + line);
                      return line;
                    }));

    Row grid = Row.withSchema(GRID).addValues(options.getInput(), 8L).build();
    Schema labelling =
        Schema.builder().addRowField("grid", GRID).addInt64Field("min_size").build();
    PCollection<Row> cells =
        bright
            .apply("All of them", Filter.by(slab -> slab.getInt64("z") >= 0))
            .setRowSchema(bright.getSchema())
            .apply(
                "Cells",
                PipelineInJava.transform(
                    options,
                    "label_slabs",
                    Row.withSchema(labelling).addValues(grid, 20L).build()));

    Schema writing =
        Schema.builder().addStringField("path").addField("chunks", NUMBERS).build();
    cells.apply(
        "Write",
        PipelineInJava.transform(
            options,
            "write_slabs",
            Row.withSchema(writing).addValue(options.getOutput()).addArray(8L, 24L, 28L).build()));

    Schema measuring =
        Schema.builder()
            .addRowField("grid", GRID)
            .addStringField("intensity")
            .addArrayField("properties", FieldType.STRING)
            .build();
    PCollection<Row> table =
        cells.apply(
            "Table",
            PipelineInJava.transform(
                options,
                "region_table",
                Row.withSchema(measuring)
                    .addValues(grid, options.getInput())
                    .addArray((Object[]) new String[] {"area", "intensity_mean"})
                    .build()));
    table.apply(
        "Print rows",
        MapElements.into(TypeDescriptors.strings())
            .via(
                row -> {
                  String line =
                      row.getInt64("label")
                          + " "
                          + row.getDouble("area")
                          + " "
                          + row.getDouble("intensity_mean");
                  System.out.println("cell " + line);
                  return line;
                }));

    // Elements of Java have Beam's default windows, as have slabs; so rows of tables have them, too.
    PCollection<KV<Long, Double>> areas =
        table.apply(
            "Areas",
            MapElements.into(TypeDescriptors.kvs(TypeDescriptors.longs(), TypeDescriptors.doubles()))
                .via(row -> KV.of(row.getInt64("label"), row.getDouble("area"))));
    PCollection<KV<Long, Double>> background =
        pipeline.apply("Background", Create.of(KV.of(0L, -1.0), KV.of(1L, -2.0)));
    PCollectionList.of(areas)
        .and(background)
        .apply("Both", Flatten.pCollections())
        .apply("Print both", printing("both", pair -> pair.getKey() + " " + pair.getValue()));
    TupleTag<Double> left = new TupleTag<>();
    TupleTag<Double> right = new TupleTag<>();
    Schema joined =
        Schema.builder()
            .addInt64Field("label")
            .addDoubleField("area")
            .addDoubleField("background")
            .build();
    PCollection<Row> rows =
        KeyedPCollectionTuple.of(left, areas)
            .and(right, background)
            .apply("Join", CoGroupByKey.create())
            .apply(
                "Joined rows",
                MapElements.into(TypeDescriptors.rows())
                    .via(
                        pair ->
                            Row.withSchema(joined)
                                .addValues(
                                    pair.getKey(),
                                    pair.getValue().getOnly(left, 0.0),
                                    pair.getValue().getOnly(right, 0.0))
                                .build()))
            .setRowSchema(joined);
    rows.apply(
        "Print joined",
        printing(
            "joined",
            row ->
                row.getInt64("label")
                    + " "
                    + row.getDouble("area")
                    + " "
                    + row.getDouble("background")));
    if (options.getTable() != null) {
      File files = new File(options.getTable());
      org.apache.avro.Schema parquet = AvroUtils.toAvroSchema(joined);
      rows.apply(
              "Records",
              MapElements.into(TypeDescriptor.of(GenericRecord.class))
                  .via(AvroUtils.getRowToGenericRecordFunction(parquet)))
          .setCoder(AvroCoder.of(parquet))
          .apply(
              "Parquet",
              FileIO.<GenericRecord>write()
                  .via(ParquetIO.sink(parquet))
                  .to(files.getParent())
                  .withPrefix(files.getName())
                  .withSuffix(".parquet"));
    }

    System.out.println(pipeline.run().waitUntilFinish());
    System.exit(0);
  }
}
