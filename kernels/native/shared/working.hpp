// Working memory of a training, which counts in the memory account of its rows.
#pragma once

#include <cstdint>

#include "api.h"

namespace tusk {

// Counts bytes during its lifetime in the training of the calling thread, if there is one. Throws
// std::bad_alloc if the account has less than that left.

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
