// What a training keeps besides rows, counted in the account of the rows' memory.
#pragma once

#include <cstdint>

#include "api.h"

namespace tusk {

// Counts bytes while it lives, in the training of the calling thread, if there is one. Throws
// std::bad_alloc where they are more than the account has left.
class Counted {
public:
    explicit Counted(int64_t bytes);
    Counted(const Counted &) = delete;
    Counted &operator=(const Counted &) = delete;
    ~Counted();

private:
    tk_working *working_;
    int64_t bytes_;
};

} // namespace tusk
