// Memory that is charged to the account of rows.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "api.h"

namespace tusk {

// Memory of the account of rows, which may lie in the spill file; without an account, the heap's.
template <class T> class Charged {
public:
    Charged() = default;
    Charged(const Charged &) = delete;
    Charged &operator=(const Charged &) = delete;
    ~Charged() { drop(); }

    // n items aligned to cache lines, their content undefined; a tk_code.
    int take(tusk_memory *memory, size_t n) {
        drop();
        int code = TUSK_OK;
        size_t size = n * sizeof(T) + 64;
        at_ = memory ? tusk_memory_take(memory, size, &slab_, &code) : std::malloc(size);
        if (!at_)
            return code == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
        return TK_OK;
    }
    T *data() const { return (T *)(((uintptr_t)at_ + 63) & ~(uintptr_t)63); }

private:
    void drop() {
        if (slab_)
            tusk_slab_drop(slab_);
        else
            std::free(at_);
        at_ = nullptr;
        slab_ = nullptr;
    }

    void *at_ = nullptr;
    tusk_slab *slab_ = nullptr;
};

} // namespace tusk
