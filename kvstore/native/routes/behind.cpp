#include "behind.hpp"

#include <algorithm>
#include <cstring>

namespace tusk {

constexpr std::size_t PAGE = 4096;

bool Behind::flush(int32_t region, const Write &write) {
    Open &open = open_[static_cast<std::size_t>(region)];
    std::size_t used = open.used;
    open.used = 0;
    return !used || write(buffer(region), used, open.begin);
}

bool Behind::put(int32_t region, const char *data, std::size_t bytes, int64_t at,
                 const Write &write) {
    if (!size_)
        return write(data, bytes, at);
    Open &open = open_[static_cast<std::size_t>(region)];
    if (open.used && open.begin + static_cast<int64_t>(open.used) != at && !flush(region, write))
        return false;
    if (!open.used)
        open.begin = at;
    while (bytes) {
        std::size_t over = static_cast<std::size_t>(open.begin) % PAGE;
        if (!open.used && !over && bytes >= size_) { // whole pages need no buffer
            std::size_t whole = bytes / PAGE * PAGE;
            if (!write(data, whole, open.begin))
                return false;
            open.begin += static_cast<int64_t>(whole);
            data += whole;
            bytes -= whole;
            continue;
        }
        std::size_t end = size_ - over, n = std::min(bytes, end - open.used); // a page ends there
        std::memcpy(buffer(region) + open.used, data, n);
        open.used += n;
        data += n;
        bytes -= n;
        if (open.used < end)
            continue;
        if (!flush(region, write))
            return false;
        open.begin += static_cast<int64_t>(end);
    }
    return true;
}

} // namespace tusk
