/* Makes the libraries of a wheel run with glibc 2.31 and later, though they are linked with a
 * newer one.
 *
 * The linker binds a symbol to its newest version, which an older C library has not, even where an
 * older version does the same. `portable.py` has it put a wrapper in place of each name below
 * (--wrap), in our objects and in those of the static C++ library. A wrapper calls the version
 * that glibc has had since before. Nothing here is exported.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5" /* of this processor */
#define JUMP "jmp "
#define PLACE "@PLT"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#define JUMP "b "
#define PLACE ""
#else
#error "wheels are made for x86-64 and 64-bit Arm"
#endif

/* The same function under an earlier version. */
#define EARLIER(name, version)                                       \
    __asm__(".symver old_" #name "," #name "@" version "\n"          \
            ".pushsection .text.__wrap_" #name ",\"ax\",%progbits\n" \
            ".globl __wrap_" #name "\n"                              \
            ".hidden __wrap_" #name "\n"                             \
            ".type __wrap_" #name ", %function\n"                    \
            "__wrap_" #name ":\n" JUMP "old_" #name PLACE "\n"       \
            ".size __wrap_" #name ", . - __wrap_" #name "\n"         \
            ".popsection\n")

/* They moved from libpthread and libdl, which portable.py names too, into libc. */
EARLIER(__pthread_key_create, FIRST);
EARLIER(dladdr, FIRST);
EARLIER(dlclose, FIRST);
EARLIER(dlerror, FIRST);
EARLIER(dlopen, FIRST);
EARLIER(dlsym, FIRST);
EARLIER(pthread_create, FIRST);
EARLIER(pthread_detach, FIRST);
EARLIER(pthread_getspecific, FIRST);
EARLIER(pthread_join, FIRST);
EARLIER(pthread_key_create, FIRST);
EARLIER(pthread_key_delete, FIRST);
EARLIER(pthread_mutex_trylock, FIRST);
EARLIER(pthread_once, FIRST);
EARLIER(pthread_rwlock_destroy, FIRST);
EARLIER(pthread_rwlock_init, FIRST);
EARLIER(pthread_rwlock_rdlock, FIRST);
EARLIER(pthread_rwlock_tryrdlock, FIRST);
EARLIER(pthread_rwlock_trywrlock, FIRST);
EARLIER(pthread_rwlock_unlock, FIRST);
EARLIER(pthread_rwlock_wrlock, FIRST);
EARLIER(pthread_setspecific, FIRST);
EARLIER(pthread_sigmask, FIRST);
EARLIER(hypot, FIRST);
EARLIER(pthread_cond_clockwait, "GLIBC_2.30");

/* Before 2.33 these were inline functions that asked for a version of the struct. */
#ifndef _STAT_VER
#if defined(__x86_64__)
#define _STAT_VER 1
#else
#define _STAT_VER 0
#endif
#endif
int old_xstat(int version, const char *path, struct stat *found);
int old_fxstat(int version, int file, struct stat *found);
__asm__(".symver old_xstat,__xstat@" FIRST);
__asm__(".symver old_fxstat,__fxstat@" FIRST);

__attribute__((visibility("hidden"))) int __wrap_stat(const char *path, struct stat *found) {
    return old_xstat(_STAT_VER, path, found);
}

__attribute__((visibility("hidden"))) int __wrap_fstat(int file, struct stat *found) {
    return old_fxstat(_STAT_VER, file, found);
}

/* Whether the process has one thread, new in 2.32: shared pointers count atomically if it is 0. */
__attribute__((visibility("hidden"))) char __wrap___libc_single_threaded;
