/* A library to be preloaded (LD_PRELOAD): counts calls of the C library and lets the n-th one go wrong.
 *
 * Nothing is counted until `faults_arm(calls, number, action, error)`: `calls` is a mask of the kinds below,
 * `number` counts from 1. `faults_seen` tells how many calls there were until `faults_disarm`, and
 * `faults_went_through` whether a function was among those that asked for the memory that was refused last.
 * Files other than ordinary ones are left alone, and so are calls that one of these functions makes itself.
 * For glibc on Linux.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES = 1, NAMES = 2, READS = 4, PYTHON = 8, NATIVE = 16, REMOVALS = 32 }; /* what is counted */
enum { KILL = 1, FAIL = 2, FAIL_ON = 3, SHORT = 4, END = 5 };       /* FAIL_ON: all from the n-th on */

static int armed_calls, action, error_number;
static long number, seen;

void faults_arm(int calls, long which, int what, int code) {
  number = which, action = what, error_number = code, seen = 0;
  __atomic_store_n(&armed_calls, calls, __ATOMIC_SEQ_CST);
}

void faults_disarm(void) { __atomic_store_n(&armed_calls, 0, __ATOMIC_SEQ_CST); }

long faults_seen(void) { return seen; }

/* 0: go on as if nothing were; -1: fail with errno set; SHORT or END: do less. */
static int strike(int call) {
  if (!(armed_calls & call)) return 0;
  long count = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
  if (count != number && !(action == FAIL_ON && count > number)) return 0;
  if (action == KILL) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  if (action == SHORT || action == END) return action;
  errno = error_number;
  return -1;
}

static int is_ordinary(int fd) {
  struct stat found;
  int before = errno, ordinary = syscall(SYS_fstat, fd, &found) == 0 && S_ISREG(found.st_mode);
  errno = before;
  return ordinary;
}

static int strike_file(int call, int fd) { return armed_calls & call && is_ordinary(fd) ? strike(call) : 0; }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
  int hit = strike_file(WRITES, fd);
  if (hit < 0) return -1;
  return syscall(SYS_write, fd, data, hit == SHORT && size > 1 ? size / 2 : size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  int hit = strike_file(WRITES, fd);
  if (hit < 0) return -1;
  return syscall(SYS_pwrite64, fd, data, hit == SHORT && size > 1 ? size / 2 : size, at);
}

ssize_t read(int fd, void *data, size_t size) {
  int hit = strike_file(READS, fd);
  if (hit) return hit < 0 ? -1 : hit == END ? 0 : syscall(SYS_read, fd, data, size > 1 ? size / 2 : size);
  return syscall(SYS_read, fd, data, size);
}

int fsync(int fd) { return strike_file(WRITES, fd) < 0 ? -1 : syscall(SYS_fsync, fd); }
int ftruncate64(int fd, off64_t size) {
  return strike_file(WRITES, fd) < 0 ? -1 : syscall(SYS_ftruncate, fd, size);
}
int fchmod(int fd, mode_t mode) { return strike(NAMES) < 0 ? -1 : syscall(SYS_fchmod, fd, mode); }
int flock(int fd, int how) { return strike(NAMES) < 0 ? -1 : syscall(SYS_flock, fd, how); }
int close(int fd) {
  int hit = strike_file(REMOVALS, fd), done = syscall(SYS_close, fd);
  return hit < 0 ? (errno = error_number, -1) : done;
}

static int opened(int folder, const char *path, int flags, mode_t mode) {
  if (strike(flags & (O_CREAT | O_WRONLY | O_RDWR) ? NAMES : READS) < 0) return -1;
  return syscall(SYS_openat, folder, path, flags, mode);
}
#define MODE(flags, mode)                                 \
  mode_t mode = 0;                                        \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {                \
    va_list rest;                                         \
    va_start(rest, flags), mode = va_arg(rest, mode_t);   \
    va_end(rest);                                         \
  }
int open(const char *path, int flags, ...) {
  MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  MODE(flags, mode) return opened(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  MODE(flags, mode) return opened(folder, path, flags, mode);
}

#define STRUCK(kind, head, call) \
  int head { return strike(kind) < 0 ? -1 : (int)syscall call; }
#define NAME(head, call) STRUCK(NAMES, head, call)
#define REMOVAL(head, call) STRUCK(REMOVALS, head, call)
NAME(rename(const char *a, const char *b), (SYS_renameat, AT_FDCWD, a, AT_FDCWD, b))
NAME(renameat(int f, const char *a, int g, const char *b), (SYS_renameat, f, a, g, b))
NAME(link(const char *a, const char *b), (SYS_linkat, AT_FDCWD, a, AT_FDCWD, b, 0))
NAME(linkat(int f, const char *a, int g, const char *b, int flags), (SYS_linkat, f, a, g, b, flags))
REMOVAL(unlink(const char *a), (SYS_unlinkat, AT_FDCWD, a, 0))
REMOVAL(unlinkat(int f, const char *a, int flags), (SYS_unlinkat, f, a, flags))
REMOVAL(rmdir(const char *a), (SYS_unlinkat, AT_FDCWD, a, AT_REMOVEDIR))
NAME(mkdir(const char *a, mode_t mode), (SYS_mkdirat, AT_FDCWD, a, mode))
NAME(mkdirat(int f, const char *a, mode_t mode), (SYS_mkdirat, f, a, mode))

/* ---- memory */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static __thread int inside;

/* Who asks: code that no file holds was linked in memory, and is NATIVE; Python and its modules are PYTHON,
 * apart from LLVM, which ends its process without memory. */
static int looked_up(void *address) {
  Dl_info found;
  inside = 1;
  int known = dladdr(address, &found);
  inside = 0;
  if (!known || !found.dli_fname) return NATIVE;
  const char *last = strrchr(found.dli_fname, '/');
  last = last ? last + 1 : found.dli_fname;
  if (!strncmp(last, "python", 6) || !strncmp(last, "libpython", 9) || strstr(found.dli_fname, "numpy")
      || strstr(last, ".cpython-"))
    return PYTHON;
  return 0;
}

/* Addresses that asked before, and who they are in the two low bits. */
static __thread size_t known[1 << 14];

static int asker(void *address) {
  size_t key = (size_t)address << 2, *slot = &known[((size_t)address >> 1) % (1 << 14)];
  if ((*slot & ~(size_t)3) != key) *slot = key | looked_up(address) / 8;
  return (*slot & 3) * 8;
}

static void *callers[8]; /* of the request that was refused last, the innermost first */
static int num_callers;

int faults_went_through(const char *name) {
  Dl_info found;
  for (int at = 0; at < num_callers; at++)
    if (dladdr(callers[at], &found) && found.dli_sname && !strcmp(found.dli_sname, name)) return 1;
  return 0;
}

static int no_memory(void *address) {
  if (!(armed_calls & (PYTHON | NATIVE)) || inside) return 0;
  int who = asker(address);
  if (!who || strike(who) >= 0) return 0;
  inside = 1;
  num_callers = backtrace(callers, sizeof callers / sizeof *callers);
  inside = 0;
  return 1;
}
#define GUARD if (no_memory(__builtin_return_address(0))) { errno = ENOMEM; return NULL; }

void *malloc(size_t size) { GUARD return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { GUARD return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { GUARD return __libc_realloc(block, size); }
void *aligned_alloc(size_t align, size_t size) { GUARD return __libc_memalign(align, size); }
void *memalign(size_t align, size_t size) { GUARD return __libc_memalign(align, size); }
int posix_memalign(void **made, size_t align, size_t size) {
  if (no_memory(__builtin_return_address(0))) return ENOMEM;
  *made = __libc_memalign(align, size);
  return *made ? 0 : ENOMEM;
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
  if (fd < 0 ? no_memory(__builtin_return_address(0)) : strike_file(READS, fd) < 0) {
    errno = fd < 0 ? ENOMEM : error_number;
    return MAP_FAILED;
  }
  return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd < 0 ? no_memory(__builtin_return_address(0)) : strike_file(READS, fd) < 0) {
    errno = fd < 0 ? ENOMEM : error_number;
    return MAP_FAILED;
  }
  return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
