// The standard headers that most sources in C++ include. Each source still includes what it uses:
// compilers other than GCC, and `make cross`, do not read this file.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
#ifdef __x86_64__
#include <immintrin.h>
#endif
