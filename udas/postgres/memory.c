/* The backend's account of rows. */
#include "door.h"

#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/guc.h"

#define LEAST_BUDGET ((int64)256 << 20)
/* Where PostgreSQL's own temporary files lie; a backend's working directory is that of the data.
 */
#define TEMP_DIRECTORY "base/pgsql_tmp"

static int64 budget(void) {
    if (tuskml_memory_limit >= 0)
        return (int64)tuskml_memory_limit * 1024;
    return Max(LEAST_BUDGET, (int64)get_hash_memory_limit());
}

tusk_memory *backend_memory(void) {
    static tusk_memory *memory;
    if (!memory) {
        memory = tusk_memory_new();
        /* Left to the account it would be made and removed again, while others put files there. */
        (void)MakePGDirectory(TEMP_DIRECTORY);
    }
    if (!memory)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("tuskml: out of memory")));
    tusk_memory_limit(memory, budget(), TEMP_DIRECTORY);
    tusk_memory_limit_spill(memory,
                            temp_file_limit < 0 ? PG_INT64_MAX : (int64)temp_file_limit * 1024);
    return memory;
}
