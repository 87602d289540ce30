/* The file for a batch. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>

#include "../../../rowblock/handed/handed.h"
#include "../../../rowblock/spill_file.h"
#include "parcel.h"

/* Allocates the file's blocks; -1 if there is no room. */
static int with_blocks(int file, int64_t bytes) {
    int failed;
    if (file < 0)
        return -1;
    do /* a timer in the client may interrupt it */
        failed = posix_fallocate(file, 0, (off_t)bytes);
    while (failed == EINTR);
    if (!failed)
        return file;
    close(file);
    errno = failed;
    return -1;
}

bool parcel_new(tusk_memory *memory, parcel_file *file) {
    char directory[PATH_MAX];
    file->file = -1;
    file->spilled = !tusk_memory_hold(memory, file->bytes);
    if (!file->spilled) {
        int made = (int)syscall(SYS_memfd_create, "tuskml", 1u /* MFD_CLOEXEC */);
        file->file = with_blocks(made, file->bytes);
        if (file->file >= 0)
            return true;
        tusk_memory_let_go(memory, file->bytes);
        file->spilled = 1;
    }
    tusk_memory_directory(memory, directory, sizeof directory);
    file->file = with_blocks(open_spill(directory), file->bytes);
    return file->file >= 0;
}

void parcel_close(tusk_memory *memory, const parcel_file *written) {
    close(written->file);
    if (!written->spilled)
        tusk_memory_let_go(memory, written->bytes);
}
