/* Progress reports of kernels. */
#ifndef TUSK_TELLING_API_H
#define TUSK_TELLING_API_H

#include "../api.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tusk_progress;

/* Sets the functions that kernels call from now on. */
TK_API void tk_use_progress(const struct tusk_progress *functions);

#ifdef __cplusplus
}
#endif

#endif
