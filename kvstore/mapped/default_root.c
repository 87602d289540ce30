#include "default_root.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fits(int length, size_t size) {
    return length > 0 && (size_t)length < size;
}

bool tusk_absolute_path(const char *given, char *path, size_t size) {
    if (given[0] == '/')
        return fits(snprintf(path, size, "%s", given), size);
    if (!getcwd(path, size))
        return false;
    size_t length = strlen(path);
    return fits(snprintf(path + length, size - length, "/%s", given), size - length);
}

static bool below_home(const char *name, char *path, size_t size) {
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char text[4096];
    if (!home || !home[0]) {
        if (getpwuid_r(getuid(), &entry, text, sizeof text, &found) || !found)
            return false;
        home = entry.pw_dir;
    }
    return home[0] == '/' &&
           fits(snprintf(path, size, "%s/.local/share/tuskml/%s", home, name), size);
}

bool tusk_data_path(const char *name, char *path, size_t size) {
    const char *data = getenv("XDG_DATA_HOME");
    if (data && data[0] == '/')
        return fits(snprintf(path, size, "%s/tuskml/%s", data, name), size);
    return below_home(name, path, size);
}

bool tusk_default_root(char *path, size_t size) {
    const char *given = getenv("TUSKML_STORE_ROOT");
    if (given && given[0])
        return tusk_absolute_path(given, path, size);
    return tusk_data_path("stores", path, size);
}
