// The C interface of Charged: memory that counts in the account of the rows.
#include <memory>

#include "charged.hpp"
#include "rows.hpp"

// Its account lives at least as long, because Python frees it with the last array that views it.
struct tk_charged {
    tusk::Charged<char> memory;
    tusk_memory *account = nullptr;
};

int tk_charged_new(tusk_memory *memory, int64_t size, tk_charged **out, void **at) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&]() -> int {
        auto made = std::make_unique<tk_charged>();
        if (int code = made->memory.take(memory, (size_t)size))
            return code;
        if ((made->account = memory))
            tusk_memory_retain(memory);
        *at = made->memory.data();
        *out = made.release();
        return TK_OK;
    });
}

void tk_charged_free(tk_charged *charged) {
    tusk_memory *account = charged ? charged->account : nullptr;
    delete charged;
    tusk_memory_free(account);
}

void tk_memory_use(tusk_memory *memory, tusk_memory_use *use) {
    tusk_memory_used(memory, use);
}
