// The segments that hold a group's rows.
#pragma once

#include "api.h"

namespace tusk {

// for (const tusk_segment *s : SegmentsOf(group)). It ends with the group's last row: if groups
// have rows in common, the link of the segment after it leads on to rows of others.
class SegmentsOf {
public:
    explicit SegmentsOf(const tusk_group &group) : first_{group.head, group.n_rows} {}

    struct Place {
        const tusk_segment *segment;
        int64_t left; // remaining rows
        const tusk_segment *operator*() const { return segment; }
        Place &operator++() {
            left -= segment->n_rows;
            segment = segment->next;
            return *this;
        }
        bool operator!=(const Place &) const { return segment && left > 0; }
    };
    Place begin() const { return first_; }
    Place end() const { return {nullptr, 0}; }

private:
    Place first_;
};

} // namespace tusk
