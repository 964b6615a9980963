/* Loaded into a process before its libraries, this shifts the wall clock that the
 * process reads by the ns in the first 8 bytes of the file that CLOCK_OFFSET
 * names. Monotonic clocks stay what they are. Only system calls are used: the
 * allocator of the process may ask for the time before it can allocate. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none;
static const volatile int64_t *offset;

static void find(void) {
  const char *name = getenv("CLOCK_OFFSET");
  offset = &none;
  if (!name) return;
  int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY);
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) offset = page;
  syscall(SYS_close, fd);
}

static int64_t wall(void) {
  struct timespec t;
  if (!offset) find();
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec + *offset;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
    return syscall(SYS_clock_gettime, clock, t);
  int64_t now = wall();
  t->tv_sec = now / 1000000000;
  t->tv_nsec = now % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  (void)zone;
  int64_t now = wall();
  t->tv_sec = now / 1000000000;
  t->tv_usec = now % 1000000000 / 1000;
  return 0;
}

time_t time(time_t *t) {
  time_t now = wall() / 1000000000;
  if (t) *t = now;
  return now;
}
