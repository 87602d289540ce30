/* Default directories of stores and other files of the user. */
#ifndef TUSK_DEFAULT_ROOT_H
#define TUSK_DEFAULT_ROOT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The absolute path of `tuskml/NAME` in the user's data folder (XDG_DATA_HOME, or else
 * .local/share in the home directory). Returns false if there is no home directory or the path
 * does not fit. */
bool tusk_data_path(const char *name, char *path, size_t size);

/* An absolute path: the environment's TUSKML_STORE_ROOT, otherwise `stores` in the data folder.
 * Returns false as above. */
bool tusk_default_root(char *path, size_t size);

/* Makes a path absolute; a relative path starts from the current working directory. */
bool tusk_absolute_path(const char *given, char *path, size_t size);

#ifdef __cplusplus
}
#endif
#endif
