#include "leveldb.hpp"

#include <cstdio>
#include <dlfcn.h>

#include "../api.h"

namespace tusk::leveldb {

#define TUSK_DEFINE(result, name, arguments) result(*name) arguments = nullptr;
TUSK_LEVELDB(TUSK_DEFINE)
#undef TUSK_DEFINE

namespace {

// The name of a function that the library lacks, or nullptr.
const char *resolve(void *library) {
#define TUSK_FIND(result, name, arguments)                                          \
    name = reinterpret_cast<result(*) arguments>(dlsym(library, "leveldb_" #name)); \
    if (!name)                                                                      \
        return "leveldb_" #name;
    TUSK_LEVELDB(TUSK_FIND)
#undef TUSK_FIND
    return nullptr;
}

} // namespace
} // namespace tusk::leveldb

int ks_load(const char *library, char *error) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        std::snprintf(error, KS_ERROR, "%s", dlerror());
        return KS_FAILED;
    }
    if (const char *missing = tusk::leveldb::resolve(handle)) {
        std::snprintf(error, KS_ERROR, "%s has no function %s", library, missing);
        return KS_FAILED;
    }
    return KS_OK;
}
