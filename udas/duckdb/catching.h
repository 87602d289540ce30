/* DuckDB's functions in C throw C++ exceptions where they find no memory. Through C they may go,
 * through Python's frames they must not: so the trainer's answers are written behind this. */
#ifndef TUSK_CATCHING_H
#define TUSK_CATCHING_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls body(argument); false when it threw. */
bool catching(void (*body)(void *), void *argument);

#ifdef __cplusplus
}
#endif
#endif
