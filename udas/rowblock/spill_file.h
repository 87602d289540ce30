/* Opens the file that rows are spilled to. */
#ifndef TUSK_SPILL_FILE_H
#define TUSK_SPILL_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file has no name, so nothing is left behind, however the process ends. */
static int open_spill_file(const char *directory) {
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/tuskml-XXXXXX", directory) >= (int)sizeof path)
        return -1;
    fd = mkstemp(path);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Opens it in the database's temporary directory, or else in the system's. The database's
 * directory need not exist until the database itself spills. If we create it, we remove it at
 * once: a file without a name does not need it. */
static int open_spill(const char *named) {
    if (named && *named) {
        bool made = mkdir(named, 0700) == 0;
        int fd = open_spill_file(named);
        if (made)
            rmdir(named);
        if (fd >= 0)
            return fd;
    }
    const char *system = getenv("TMPDIR");
    return open_spill_file(system && *system ? system : "/tmp");
}

#endif
