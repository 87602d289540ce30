/* Preloaded into a process: counts what it does to files below a folder and spoils one call.
 *
 * fault_arm(folder, mode, number) begins, fault_calls() says how many calls there were. Modes:
 *   count  nothing else
 *   eio    the call of this number fails with EIO, once
 *   broken from that call on, every call fails with EIO
 *   full   from that call on, whatever needs space fails with ENOSPC
 *   tight  the call of this number fails with ENOSPC if it needs space, once
 *   short  a write of this number writes half, once
 *   kill   SIGKILL instead of that call
 *   power  the same, after all files lost what was never fsynced
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILES = 65536 };
static struct {
    dev_t device;
    ino_t inode;
    off_t synced;
} known[FILES];
static int n_known;
static long calls, at = -1;
static int is_short;
static const char *root, *mode = "count";
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void fault_arm(const char *folder, const char *how, long number) {
    root = strdup(folder);
    mode = strdup(how);
    at = number;
    calls = 0;
}

long fault_calls(void) {
    return calls;
}

static int below(const char *path) {
    size_t length = root ? strlen(root) : 0;
    return length && path && !strncmp(path, root, length);
}

/* Whether a descriptor is of a plain file below the root. */
static int below_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = root ? readlink(link, path, sizeof path - 1) : -1;
    if (n < 0)
        return 0;
    path[n] = 0;
    return below(path);
}

/* How much of a file is safe; a file seen for the first time begins with `first`. */
static off_t *synced(const struct stat *status, off_t first) {
    for (int i = 0; i < n_known; i++)
        if (known[i].inode == status->st_ino && known[i].device == status->st_dev)
            return &known[i].synced;
    if (n_known == FILES)
        abort();
    known[n_known].inode = status->st_ino;
    known[n_known].device = status->st_dev;
    known[n_known].synced = first;
    return &known[n_known++].synced;
}

static int lose(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)where;
    if (kind == FTW_F) {
        off_t safe = *synced(status, status->st_size);
        if (safe < status->st_size && truncate(path, safe))
            abort();
    }
    return 0;
}

/* The error that this call shall have; 0: none. The guard is held. */
static int spoiled(int needs_space) {
    long number = ++calls;
    if (number == at && !strcmp(mode, "power"))
        nftw(root, lose, 16, FTW_PHYS);
    if (number == at && (!strcmp(mode, "power") || !strcmp(mode, "kill")))
        kill(getpid(), SIGKILL);
    is_short = number == at && !strcmp(mode, "short");
    if (at <= 0 || number < at)
        return 0;
    if (!strcmp(mode, "broken") || (number == at && !strcmp(mode, "eio")))
        return EIO;
    if (needs_space && (!strcmp(mode, "full") || (number == at && !strcmp(mode, "tight"))))
        return ENOSPC;
    return 0;
}

/* How much of a write is done. */
static size_t whole(size_t n) {
    return is_short && n > 1 ? n / 2 : n;
}

/* A call on files below the root: counted, spoiled perhaps, then done; `after` if it was. */
#define CALL(ours, needs_space, work, after) \
    do {                                     \
        if (!(ours))                         \
            return work;                     \
        pthread_mutex_lock(&guard);          \
        int error = spoiled(needs_space);    \
        __typeof__(work) result = -1;        \
        if (!error) {                        \
            result = work;                   \
            error = errno;                   \
            if (result >= 0) {               \
                after;                       \
            }                                \
        }                                    \
        pthread_mutex_unlock(&guard);        \
        errno = error;                       \
        return result;                       \
    } while (0)

static void is_safe(int fd) {
    struct stat status;
    if (!fstat(fd, &status))
        *synced(&status, 0) = status.st_size;
}

/* A file opened for writing: what it had before is safe, unless we know better. */
static void is_written(int fd, int flags) {
    struct stat status;
    if ((flags & O_ACCMODE) != O_RDONLY && !fstat(fd, &status) && S_ISREG(status.st_mode)) {
        off_t *safe = synced(&status, status.st_size);
        if (*safe > status.st_size)
            *safe = status.st_size;
    }
}

#define OPEN(name)                                                                \
    int name(const char *path, int flags, ...) {                                  \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        mode_t bits = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                             \
        CALL(below(path), flags & O_CREAT, REAL(open64)(path, flags, bits),       \
             is_written(result, flags));                                          \
    }
OPEN(open)
OPEN(open64)

int openat(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t bits = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    CALL(*path == '/' ? below(path) : below_fd(folder), flags & O_CREAT,
         REAL(openat)(folder, path, flags, bits), is_written(result, flags));
}
ssize_t write(int fd, const void *data, size_t n) {
    CALL(below_fd(fd), 1, REAL(write)(fd, data, whole(n)), );
}
#define AT(writing, reading, place_type)                                    \
    ssize_t writing(int fd, const void *data, size_t n, place_type place) { \
        CALL(below_fd(fd), 1, REAL(writing)(fd, data, whole(n), place), );  \
    }                                                                       \
    ssize_t reading(int fd, void *data, size_t n, place_type place) {       \
        CALL(below_fd(fd), 0, REAL(reading)(fd, data, n, place), );         \
    }
AT(pwrite, pread, off_t)
AT(pwrite64, pread64, off64_t)
ssize_t read(int fd, void *data, size_t n) {
    CALL(below_fd(fd), 0, REAL(read)(fd, data, n), );
}
int ftruncate(int fd, off_t size) {
    CALL(below_fd(fd), 1, REAL(ftruncate)(fd, size), );
}
int ftruncate64(int fd, off64_t size) {
    CALL(below_fd(fd), 1, REAL(ftruncate64)(fd, size), );
}
int fallocate(int fd, int how, off_t place, off_t size) {
    CALL(below_fd(fd), 1, REAL(fallocate)(fd, how, place, size), );
}

/* Alone in returning its error. */
static int allocated(int fd, off_t place, off_t size) {
    int error = REAL(posix_fallocate)(fd, place, size);
    errno = error;
    return error ? -1 : 0;
}
static int allocate(int fd, off_t place, off_t size) {
    CALL(below_fd(fd), 1, allocated(fd, place, size), );
}
int posix_fallocate(int fd, off_t place, off_t size) {
    return allocate(fd, place, size) ? errno : 0;
}
int fsync(int fd) {
    CALL(below_fd(fd), 1, REAL(fsync)(fd), is_safe(fd));
}
int fdatasync(int fd) {
    CALL(below_fd(fd), 1, REAL(fdatasync)(fd), is_safe(fd));
}
int rename(const char *from, const char *to) {
    CALL(below(from), 1, REAL(rename)(from, to), );
}
int link(const char *from, const char *to) {
    CALL(below(from), 1, REAL(link)(from, to), );
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    CALL(below(from), 1, REAL(linkat)(a, from, b, to, flags), );
}
int mkdir(const char *path, mode_t bits) {
    CALL(below(path), 1, REAL(mkdir)(path, bits), );
}
int unlink(const char *path) {
    CALL(below(path), 0, REAL(unlink)(path), );
}
int unlinkat(int folder, const char *path, int flags) {
    CALL(*path == '/' ? below(path) : below_fd(folder), 0, REAL(unlinkat)(folder, path, flags), );
}
int rmdir(const char *path) {
    CALL(below(path), 0, REAL(rmdir)(path), );
}
