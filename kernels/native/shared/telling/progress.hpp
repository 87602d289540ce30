// Says how far a long computation is, in the list of the host's running trainings.
#pragma once

#include <cstdint>

namespace tusk {

class Progress {
public:
    // The calling thread begins work of so many units on so many groups of its training.
    Progress(int64_t units, int64_t groups);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // So many units are done, by any thread, and so many rows were read for them.
    void done(int64_t units, int64_t rows) const;

private:
    void *work_;
};

} // namespace tusk
