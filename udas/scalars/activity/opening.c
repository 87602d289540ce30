/* Location of the table of running trainings, and permission to open it. */
#include "listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

const char *tusk_table_setting(void) {
    const char *setting = getenv(TUSK_TABLE_SETTING);
    if (!setting)
        return "";
    return strcasecmp(setting, "off") ? setting : NULL;
}

/* The path of a setting's table. */
static void path_of(const char *setting, char path[static PATH_BYTES]) {
    struct stat facts;
    bool memory = stat("/dev/shm", &facts) == 0 && S_ISDIR(facts.st_mode);
    if (*setting)
        snprintf(path, PATH_BYTES, "%s", setting);
    else
        snprintf(path, PATH_BYTES, "%s/tuskml-shares-4-%u", memory ? "/dev/shm" : "/tmp",
                 (unsigned)geteuid());
}

/* Accepts a file of this account, or if it is named one that another account lets only a group
 * of this one write: the members of such a group trust each other with their shares. They could
 * end each other's processes, by making the file shorter. */
static bool allowed(const struct stat *facts, bool named) {
    if (!S_ISREG(facts->st_mode))
        return false;
    bool of_group = (facts->st_mode & S_IWGRP) && !(facts->st_mode & S_IWOTH);
    return facts->st_uid == geteuid() || (named && of_group);
}

int tusk_table_open(const char *setting, int make, tusk_table **out) {
    char path[PATH_BYTES];
    if (strlen(setting) >= sizeof path)
        return ENAMETOOLONG;
    path_of(setting, path);
    const int file = open(path, O_RDWR | (make ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return errno;
    struct stat facts;
    int problem = fstat(file, &facts) ? errno : 0;
    if (!problem && !allowed(&facts, *setting))
        problem = EPERM;
    /* Without the space, the first write to a page would end the process. */
    if (!problem && facts.st_size < (off_t)sizeof(tusk_table))
        problem = make ? posix_fallocate(file, 0, sizeof(tusk_table)) : ENOENT;
    void *at = MAP_FAILED;
    if (!problem) {
        at = mmap(NULL, sizeof(tusk_table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        problem = at == MAP_FAILED ? errno : 0;
    }
    close(file);
    if (problem)
        return problem;
    tusk_table *made = at;
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(&made->magic, &none, TUSK_TABLE_MAGIC, false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
        none != TUSK_TABLE_MAGIC) {
        munmap(at, sizeof(tusk_table));
        return EPROTO;
    }
    *out = made;
    return 0;
}

void tusk_table_close(tusk_table *table) {
    munmap(table, sizeof *table);
}

int32_t tusk_activity(tusk_running *out, char *sentence) {
    const char *setting = tusk_table_setting();
    tusk_table *table;
    if (!setting) {
        snprintf(sentence, TUSK_ACTIVITY_SENTENCE,
                 TUSK_TABLE_SETTING " is 'off', so nobody knows of running trainings: unset it");
        return -1;
    }
    const int problem = tusk_table_open(setting, 0, &table);
    if (problem == ENOENT)
        return 0; /* no training has run yet */
    if (problem) {
        char path[PATH_BYTES];
        path_of(setting, path);
        snprintf(sentence, TUSK_ACTIVITY_SENTENCE,
                 "the table of running trainings, %s, cannot be opened: %s", path,
                 strerror(problem));
        return -1;
    }
    const int32_t n = tusk_list_running(table, out);
    tusk_table_close(table);
    return n;
}
