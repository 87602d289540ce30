/* Compiles a function once for each level of x86 vectors; the loader picks one. Sanitizers
 * crash in its resolvers. Use it for static functions over runs of rows, because every call
 * costs a jump through memory. */
#ifndef TUSK_CLONES_H
#define TUSK_CLONES_H

#include <stdint.h> /* defines __GLIBC__ */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#endif
