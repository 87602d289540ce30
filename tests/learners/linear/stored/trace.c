/* Preloaded into a process: counts what it reads from and writes to the file that it last made
 * longer by ftruncate, and the calls that write. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int traced = -1;
static long bytes_read, bytes_written, writes;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void trace_get(long *numbers) {
    numbers[0] = __atomic_load_n(&bytes_read, __ATOMIC_SEQ_CST);
    numbers[1] = __atomic_load_n(&bytes_written, __ATOMIC_SEQ_CST);
    numbers[2] = __atomic_load_n(&writes, __ATOMIC_SEQ_CST);
}

static ssize_t read_of(int fd, ssize_t n) {
    if (fd == traced && n > 0)
        __atomic_fetch_add(&bytes_read, n, __ATOMIC_SEQ_CST);
    return n;
}

static ssize_t written_to(int fd, ssize_t n) {
    if (fd == traced && n > 0) {
        __atomic_fetch_add(&bytes_written, n, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&writes, 1, __ATOMIC_SEQ_CST);
    }
    return n;
}

int close(int fd) {
    if (fd == traced)
        traced = -1;
    return REAL(close)(fd);
}

int ftruncate(int fd, off_t length) {
    traced = length ? fd : traced;
    return REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    traced = length ? fd : traced;
    return REAL(ftruncate64)(fd, length);
}

ssize_t pread(int fd, void *to, size_t n, off_t at) {
    return read_of(fd, REAL(pread)(fd, to, n, at));
}

ssize_t pread64(int fd, void *to, size_t n, off64_t at) {
    return read_of(fd, REAL(pread64)(fd, to, n, at));
}

ssize_t preadv2(int fd, const struct iovec *to, int n, off_t at, int flags) {
    return read_of(fd, REAL(preadv2)(fd, to, n, at, flags));
}

ssize_t preadv64v2(int fd, const struct iovec *to, int n, off64_t at, int flags) {
    return read_of(fd, REAL(preadv64v2)(fd, to, n, at, flags));
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    return written_to(fd, REAL(pwrite)(fd, from, n, at));
}

ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
    return written_to(fd, REAL(pwrite64)(fd, from, n, at));
}
