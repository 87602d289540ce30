// What most sources in C++ include of the standard library. Every source goes on including what it
// uses: other compilers than GCC, and `make cross`, do not read this.
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
