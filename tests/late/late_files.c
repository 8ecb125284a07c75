/* A client of a network disk that sees what other clients do only later: a library for LD_PRELOAD.

   Below LATE_ROOT a process sees each folder as it was when it first looked there, for LATE_SECONDS of the
   clock in the file LATE_CLOCK: names, missing names, and what stat returns. What it does itself it sees at once.
   With LATE_NAMES, as on NFS, this is true of listings, and of names that it has looked for: the server is asked
   for other names.

   What is certain: a file that is opened by a name that is seen is that of the server (close-to-open), and so is
   O_CREAT, with or without O_EXCL. Renames, deletions and locks happen at the server. A name that the server
   denies is forgotten. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct stat Stat;
typedef struct { char *name; Stat stat; } Entry;
typedef struct Folder {
  struct Folder *next;
  char *path;
  int64_t until;
  size_t many, room;
  Entry *entries;
} Folder;
typedef struct Listing {
  struct Listing *next;
  DIR *handle;
  size_t at, many;
  struct dirent *entries;
} Listing;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const char *root;
static const volatile int64_t *now;
static int64_t seconds;
static int asks;
static Folder *folders;
static Listing *listings;

__attribute__((constructor)) static void begin(void) {
  const char *clock = getenv("LATE_CLOCK");
  if (!clock) return;
  int handle = syscall(SYS_openat, AT_FDCWD, clock, O_RDONLY);
  now = mmap(NULL, sizeof *now, PROT_READ, MAP_SHARED, handle, 0);
  if (now == MAP_FAILED) abort();
  seconds = atoll(getenv("LATE_SECONDS"));
  root = getenv("LATE_ROOT");
  asks = getenv("LATE_NAMES") != NULL;
}

#define ORIGINAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static int real_stat(const char *path, Stat *out) {
  return syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

/* Write the plain absolute path into `out`; whether it is below the root. */
static int below(int at, const char *path, char *out) {
  char whole[2 * PATH_MAX];
  if (!root || !path) return 0;
  if (path[0] == '/') {
    snprintf(whole, sizeof whole, "%s", path);
  } else if (at == AT_FDCWD) {
    if (!getcwd(whole, PATH_MAX)) return 0;
    snprintf(whole + strlen(whole), PATH_MAX, "/%s", path);
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, whole, PATH_MAX - 1);
    if (n < 0) return 0;
    snprintf(whole + n, PATH_MAX, "/%s", path);
  }
  size_t n = 0;
  for (char *save, *part = strtok_r(whole, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
    if (!strcmp(part, ".")) continue;
    if (!strcmp(part, "..")) {
      while (n && out[--n] != '/') {}
    } else {
      n += snprintf(out + n, PATH_MAX - n, "/%s", part);
    }
    if (n >= PATH_MAX - 1) return 0;
  }
  out[n] = 0;
  size_t r = strlen(root);
  return !strncmp(out, root, r) && out[r] == '/' && out[r + 1];
}

static void forget(Folder *f, const char *name) {
  for (size_t k = 0; k < f->many; k++)
    if (!strcmp(f->entries[k].name, name)) {
      free(f->entries[k].name);
      f->entries[k--] = f->entries[--f->many];
    }
}

static void add(Folder *f, const char *name, const Stat *stat) {
  forget(f, name);
  if (f->many == f->room) f->entries = realloc(f->entries, (f->room = 2 * f->room + 8) * sizeof *f->entries);
  f->entries[f->many++] = (Entry){strdup(name), *stat};
}

/* The view of the folder of a path, and the last name of the path. */
static Folder *view(const char *folder) {
  Folder *f = folders;
  while (f && strcmp(f->path, folder)) f = f->next;
  if (f && *now < f->until) return f;
  if (!f) {
    f = calloc(1, sizeof *f);
    *f = (Folder){.next = folders, .path = strdup(folder)};
    folders = f;
  }
  while (f->many) forget(f, f->entries[0].name);
  f->until = *now + seconds;
  DIR *handle = ORIGINAL(opendir)(folder);
  struct dirent *e;
  while (handle && (e = ORIGINAL(readdir)(handle))) {
    char path[2 * PATH_MAX];
    Stat found;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !real_stat(path, &found)) add(f, e->d_name, &found);
  }
  if (handle) ORIGINAL(closedir)(handle);
  return f;
}

static Folder *split(char *path, char **name) {
  char *slash = strrchr(path, '/');
  *slash = 0;
  Folder *f = view(path);
  *slash = '/';
  *name = slash + 1;
  return f;
}

/* What this client believes to be at a path; NULL if nothing is. */
static Entry *seen(char *path) {
  char *name, *slash = strrchr(path, '/');
  *slash = 0;
  int is_seen = strlen(path) <= strlen(root) || seen(path);
  *slash = '/';
  if (!is_seen) return NULL;
  Folder *f = split(path, &name);
  for (size_t k = 0; k < f->many; k++)
    if (!strcmp(f->entries[k].name, name)) return f->entries[k].stat.st_mode ? &f->entries[k] : NULL;
  if (!asks) return NULL;
  Stat found = {0};
  int is_missing = real_stat(path, &found);
  add(f, name, &found);  /* without a mode: it is known to be missing */
  return is_missing ? NULL : &f->entries[f->many - 1];
}

/* Learn what the server has at a path, as a client does from what it does itself. */
static void learn(char *path) {
  char *name;
  Stat found;
  Folder *f = split(path, &name);
  if (real_stat(path, &found)) {
    /* The folder may be what is gone. */
    forget(f, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    if (strlen(path) > strlen(root) && real_stat(path, &found)) learn(path);
    *slash = '/';
  } else {
    add(f, name, &found);
  }
}

static int folder_is_seen(char *path) {
  char *slash = strrchr(path, '/');
  *slash = 0;
  int is_seen = strlen(path) <= strlen(root) || seen(path);
  *slash = '/';
  return is_seen;
}

#define IN(...)                     \
  pthread_mutex_lock(&lock);        \
  int code_ = 0, error_ = errno;    \
  __VA_ARGS__;                      \
  pthread_mutex_unlock(&lock);      \
  errno = error_;
#define NOT_SEEN(path, test)                                      \
  {                                                               \
    IN(code_ = !(test));                                          \
    if (code_) { errno = ENOENT; return -1; }                     \
  }
#define DONE(path) { IN(learn(path)); }

static int open_at(int at, const char *path, int flags, mode_t mode) {
  char p[PATH_MAX];
  int is_late = below(at, path, p);
  if (is_late) NOT_SEEN(p, (flags & O_CREAT) ? folder_is_seen(p) : seen(p) != NULL);
  int handle = syscall(SYS_openat, at, path, flags, mode);
  if (is_late && (handle >= 0 || errno == ENOENT || errno == EEXIST)) DONE(p);
  return handle;
}
static mode_t mode_of(int flags, va_list more) {
  return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
}
#define OPEN(name)                                      \
  int name(const char *path, int flags, ...) {          \
    va_list more;                                       \
    va_start(more, flags);                              \
    mode_t mode = mode_of(flags, more);                 \
    va_end(more);                                       \
    return open_at(AT_FDCWD, path, flags, mode);        \
  }
#define OPEN_AT(name)                                   \
  int name(int at, const char *path, int flags, ...) {  \
    va_list more;                                       \
    va_start(more, flags);                              \
    mode_t mode = mode_of(flags, more);                 \
    va_end(more);                                       \
    return open_at(at, path, flags, mode);              \
  }
OPEN(open) OPEN(open64) OPEN_AT(openat) OPEN_AT(openat64)
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return open_at(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return open_at(at, path, flags, 0); }

static int stat_at(int at, const char *path, void *out, int flags) {
  char p[PATH_MAX];
  if (!(flags & AT_EMPTY_PATH && path && !*path) && below(at, path, p)) {
    int is_link = 0;
    IN(Entry *e = seen(p); code_ = e != NULL;
       if (e) { *(Stat *)out = e->stat; is_link = S_ISLNK(e->stat.st_mode); })
    if (!code_) { errno = ENOENT; return -1; }
    if (!is_link || flags & AT_SYMLINK_NOFOLLOW) return 0;
  }
  return syscall(SYS_newfstatat, at, path, out, flags);
}
int stat(const char *p, Stat *o) { return stat_at(AT_FDCWD, p, o, 0); }
int lstat(const char *p, Stat *o) { return stat_at(AT_FDCWD, p, o, AT_SYMLINK_NOFOLLOW); }
int fstatat(int at, const char *p, Stat *o, int f) { return stat_at(at, p, o, f); }
int stat64(const char *p, struct stat64 *o) { return stat_at(AT_FDCWD, p, o, 0); }
int lstat64(const char *p, struct stat64 *o) { return stat_at(AT_FDCWD, p, o, AT_SYMLINK_NOFOLLOW); }
int fstatat64(int at, const char *p, struct stat64 *o, int f) { return stat_at(at, p, o, f); }
int __xstat(int v, const char *p, Stat *o) { return stat_at(AT_FDCWD, p, o, 0); }
int __lxstat(int v, const char *p, Stat *o) { return stat_at(AT_FDCWD, p, o, AT_SYMLINK_NOFOLLOW); }
int __fxstatat(int v, int at, const char *p, Stat *o, int f) { return stat_at(at, p, o, f); }
int __xstat64(int v, const char *p, Stat *o) { return stat_at(AT_FDCWD, p, o, 0); }
int __lxstat64(int v, const char *p, Stat *o) { return stat_at(AT_FDCWD, p, o, AT_SYMLINK_NOFOLLOW); }
int __fxstatat64(int v, int at, const char *p, Stat *o, int f) { return stat_at(at, p, o, f); }

int faccessat(int at, const char *path, int mode, int flags) {
  char p[PATH_MAX];
  if (below(at, path, p)) NOT_SEEN(p, seen(p) != NULL);
  return syscall(SYS_faccessat, at, path, mode);
}
int access(const char *path, int mode) { return faccessat(AT_FDCWD, path, mode, 0); }

int renameat(int from, const char *old, int to, const char *new) {
  char a[PATH_MAX], b[PATH_MAX];
  int is_a = below(from, old, a), is_b = below(to, new, b);
  if (is_a) NOT_SEEN(a, seen(a) != NULL);
  if (is_b) NOT_SEEN(b, folder_is_seen(b));
  int failed = syscall(SYS_renameat2, from, old, to, new, 0);
  if (is_a) DONE(a);
  if (is_b) DONE(b);
  return failed;
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
  char p[PATH_MAX];
  int is_late = below(to, new, p);
  if (is_late) NOT_SEEN(p, folder_is_seen(p));
  int failed = syscall(SYS_linkat, from, old, to, new, flags);
  if (is_late) DONE(p);
  return failed;
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int unlinkat(int at, const char *path, int flags) {
  char p[PATH_MAX];
  int is_late = below(at, path, p);
  if (is_late) NOT_SEEN(p, seen(p) != NULL);
  int failed = syscall(SYS_unlinkat, at, path, flags);
  if (is_late) DONE(p);
  return failed;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
  char p[PATH_MAX];
  int is_late = below(at, path, p);
  if (is_late) NOT_SEEN(p, folder_is_seen(p));
  /* A name that is seen is not created: the client does not ask the server. */
  if (is_late) { IN(code_ = seen(p) != NULL); if (code_) { errno = EEXIST; return -1; } }
  int failed = syscall(SYS_mkdirat, at, path, mode);
  if (is_late) DONE(p);
  return failed;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* Listings. */
static DIR *listed(DIR *handle, int at, const char *path) {
  char p[PATH_MAX];
  if (!handle || (!below(at, path, p) && (!root || strcmp(p, root)))) return handle;
  IN(Folder *f = view(p);
     Listing *l = calloc(1, sizeof *l);
     *l = (Listing){.next = listings, .handle = handle};
     l->entries = calloc(f->many + 1, sizeof *l->entries);
     for (size_t k = 0; k < f->many; k++) {
       struct dirent *e = &l->entries[l->many];
       e->d_ino = f->entries[k].stat.st_ino;
       e->d_type = IFTODT(f->entries[k].stat.st_mode);
       snprintf(e->d_name, sizeof e->d_name, "%s", f->entries[k].name);
       l->many += f->entries[k].stat.st_mode != 0;
     }
     listings = l)
  return handle;
}
static Listing *listing(DIR *handle) {
  Listing *l = listings;
  while (l && l->handle != handle) l = l->next;
  return l;
}
DIR *opendir(const char *path) {
  int handle = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  return handle < 0 ? NULL : listed(ORIGINAL(fdopendir)(handle), AT_FDCWD, path);
}
DIR *fdopendir(int handle) { return listed(ORIGINAL(fdopendir)(handle), handle, "."); }
struct dirent *readdir(DIR *handle) {
  struct dirent *e = NULL;
  IN(Listing *l = listing(handle); code_ = l != NULL; if (l && l->at < l->many) e = &l->entries[l->at++])
  return code_ ? e : ORIGINAL(readdir)(handle);
}
struct dirent64 *readdir64(DIR *handle) { return (struct dirent64 *)readdir(handle); }
void rewinddir(DIR *handle) {
  IN(Listing *l = listing(handle); if (l) l->at = 0)
  ORIGINAL(rewinddir)(handle);
}
int closedir(DIR *handle) {
  IN(for (Listing **l = &listings; *l; l = &(*l)->next) if ((*l)->handle == handle) {
    Listing *old = *l;
    *l = old->next;
    free(old->entries);
    free(old);
    break;
  })
  return ORIGINAL(closedir)(handle);
}
