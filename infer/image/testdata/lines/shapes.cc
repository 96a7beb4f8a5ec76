// A program whose inlined calls nest: templates, lambdas, constructors, virtual
// calls and a class inside a function. It prints one number.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mix.h"

namespace geo {

template <typename T> struct Point {
  T x, y;
  Point(T x, T y) : x(x), y(y) {}
  T dot(const Point &o) const { return x * o.x + y * o.y; }
};

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
  virtual double stretched(double by) const { return area() * by * by; }
};

class Circle final : public Shape {
  double r;

public:
  explicit Circle(double r);
  double area() const override { return 3.14159 * r * r; }
};

Circle::Circle(double r) : r(r < 0 ? -r : r) {}

template <typename T> class Polygon : public Shape {
  std::vector<Point<T>> corners;

public:
  void add(T x, T y) { corners.emplace_back(x, y); }
  double area() const override;
};

template <typename T> double Polygon<T>::area() const {
  double sum = 0;
  for (size_t i = 0, n = corners.size(); i < n; i++) {
    const auto &a = corners[i], &b = corners[(i + 1) % n];
    sum += double(a.x) * b.y - double(b.x) * a.y;
  }
  return sum < 0 ? -sum / 2 : sum / 2;
}

} // namespace geo

static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__attribute__((noinline)) static unsigned hash(const std::string &s) {
  unsigned h = 0x811c9dc5u;
  for (char c : s)
    h = mix(h, (unsigned char)c);
  return h;
}

__attribute__((noinline)) static long dot(const int *a, const int *b, int n) {
  long sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] > 3 ? a[i] * b[i] : a[i] < -3 ? -b[i] : 1;
  return sum;
}

int main(int argc, char **argv) {
  struct Counter {
    std::map<std::string, int> seen;
    int count(const std::string &s) { return ++seen[s]; }
    static unsigned scale(unsigned v) { return v % 7 ? v * 3 : v / 7; }
  } counter;
  std::vector<std::unique_ptr<geo::Shape>> shapes;
  int n = argc > 1 ? std::atoi(argv[1]) : 100;
  for (int i = 0; i < n; i++) {
    if (i % 3 == 0) {
      shapes.push_back(std::make_unique<geo::Circle>(i));
    } else if (i % 3 == 1) {
      auto p = std::make_unique<geo::Polygon<int>>();
      for (int k = 0; k < 5; k++) p->add(i * k, i - k * k);
      shapes.push_back(std::move(p));
    } else {
      auto p = std::make_unique<geo::Polygon<float>>();
      p->add(0, 0); p->add(i, 0); p->add(0, i);
      shapes.push_back(std::move(p));
    }
  }
  std::sort(shapes.begin(), shapes.end(), [](const auto &a, const auto &b) { return a->area() < b->area(); });
  double total = 0;
  for (auto &s : shapes) total += s->stretched(1.5);
  unsigned h = 0;
  for (int i = 0; i < n; i++) {
    std::string s = "shape" + std::to_string(i % 17);
    h = mix(h, hash(s)) + Counter::scale(counter.count(s));
  }
  int a[64], b[64];
  for (int i = 0; i < 64; i++) { a[i] = i % 11 - 5; b[i] = fib(i % 13); }
  std::printf("%.2f %u %ld %d\n", total, h, dot(a, b, 64), int(geo::Point<long>(3, 4).dot({1, 2})));
}
