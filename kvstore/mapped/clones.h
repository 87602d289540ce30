/* One body, compiled for each level of x86 vectors; the loader picks. Sanitizers do not survive
 * its resolvers. For static functions over runs of rows: a call costs a jump through memory. */
#ifndef TUSK_CLONES_H
#define TUSK_CLONES_H

#include <stdint.h> /* which tells the C library */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#endif
