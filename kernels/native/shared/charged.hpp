// Memory that is charged to the account of the rows.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "api.h"

namespace tusk {

// Memory from the account of the rows, which may lie in the spill file. Without an account it
// comes from the heap.
template <class T> class Charged {
public:
    Charged() = default;
    Charged(const Charged &) = delete;
    Charged &operator=(const Charged &) = delete;
    ~Charged() { drop(); }

    // Allocates n uninitialised items, aligned to cache lines. Returns a tk_code.
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
