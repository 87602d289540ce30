/* Where stores lie unless somebody says so. */
#ifndef TUSK_DEFAULT_ROOT_H
#define TUSK_DEFAULT_ROOT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An absolute path: the environment's TUSKML_STORE_ROOT, else `tuskml/stores` in the user's data
 * folder (XDG_DATA_HOME, else .local/share in the home directory). False when there is no home or
 * no room. */
bool tusk_default_root(char *path, size_t size);

/* An absolute path of the one given; of a relative one as the working directory is now. */
bool tusk_absolute_path(const char *given, char *path, size_t size);

#ifdef __cplusplus
}
#endif
#endif
