import java.util.Map;
import org.apache.beam.fn.harness.ExternalWorkerService;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.StartWorkerRequest;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.StartWorkerResponse;
import org.apache.beam.runners.fnexecution.artifact.ArtifactRetrievalService;
import org.apache.beam.sdk.expansion.ExternalTransformRegistrar;
import org.apache.beam.sdk.expansion.service.ExpansionService;
import org.apache.beam.sdk.extensions.sql.SqlTransform;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.transforms.ExternalTransformBuilder;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.PInput;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ServerBuilder;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.stub.StreamObserver;

/**
 * Translates the queries of `SqlTransform` of other languages, and runs their steps in this process.
 *
 * <pre>
 * java -jar target/sql-service.jar 8098
 * </pre>
 */
public class SqlService implements ExternalTransformRegistrar {
  public static void main(String[] args) throws Exception {
    if (args.length != 1 || !args[0].matches("\\d{1,5}")) {
      System.err.println("usage: java -jar sql-service.jar PORT");
      System.exit(2);
    }
    int port = Integer.parseInt(args[0]);
    // Beam's own main, with --alsoStartLoopbackWorker, offers workers in Docker as well, which Flink prefers.
    String[] here = {
      "--defaultEnvironmentType=EXTERNAL", "--defaultEnvironmentConfig=localhost:" + port
    };
    ServerBuilder.forPort(port)
        .addService(new ExpansionService(here))
        .addService(new ArtifactRetrievalService())
        .addService(new Workers())
        .build()
        .start()
        .awaitTermination();
  }

  /** Each worker has its own options, as these have its threads: those of a worker that ends are closed. */
  static class Workers extends ExternalWorkerService {
    Workers() {
      super(PipelineOptionsFactory.create());
    }

    @Override
    public void startWorker(
        StartWorkerRequest request, StreamObserver<StartWorkerResponse> answer) {
      PipelineOptions fresh = PipelineOptionsFactory.create();
      new ExternalWorkerService(fresh).startWorker(request, answer);
    }
  }

  @Override
  public Map<String, ExternalTransformBuilder<?, ?, ?>> knownBuilderInstances() {
    return Map.of("beam:external:java:sql:v1", new Builder());
  }

  /** The fields that Python sends. */
  public static class Query {
    String query;
    String ddl;

    public void setQuery(String query) {
      this.query = query;
    }

    /** There is one. */
    public void setDialect(String dialect) {}

    public void setDdl(String ddl) {
      this.ddl = ddl;
    }
  }

  static class Builder implements ExternalTransformBuilder<Query, PInput, PCollection<Row>> {
    @Override
    public PTransform<PInput, PCollection<Row>> buildExternal(Query sent) {
      // Tables outside the pipeline are not looked for: what reads them is not in the jar.
      SqlTransform transform = SqlTransform.query(sent.query).withAutoLoading(false);
      return sent.ddl == null ? transform : transform.withDdlString(sent.ddl);
    }
  }
}
