/* DuckDB's C functions throw C++ exceptions when memory runs out. An exception may pass through
 * frames of C but not through Python's, so the trainer's results are written behind this
 * function. */
#ifndef TUSK_CATCHING_H
#define TUSK_CATCHING_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls body(argument); returns false if it threw. */
bool catching(void (*body)(void *), void *argument);

#ifdef __cplusplus
}
#endif
#endif
