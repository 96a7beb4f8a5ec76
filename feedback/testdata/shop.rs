// What a profile for rustc has to carry: generic functions with closures inlined
// into their callers, calls through a vtable, and a match.
trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);
struct Strip(u64, u64);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        self.0 * self.0
    }
}

impl Shape for Strip {
    #[inline(never)]
    fn area(&self) -> u64 {
        if self.0 % 7 == 0 { self.1 } else { self.0 * self.1 }
    }
}

fn pick<T, F: Fn(&T) -> bool>(items: &[T], keep: F) -> usize {
    items.iter().filter(|i| keep(i)).count()
}

#[inline(never)]
fn total(shapes: &[Box<dyn Shape>]) -> u64 {
    let mut sum = 0u64;
    for s in shapes {
        sum = sum.wrapping_add(s.area());
        match sum % 5 {
            0 => sum ^= 1,
            1 => sum = sum.rotate_left(3),
            _ => {}
        }
    }
    sum
}

fn main() {
    let mut shapes: Vec<Box<dyn Shape>> = Vec::new();
    for i in 0..2000u64 {
        if i % 10 == 0 {
            shapes.push(Box::new(Square(i)));
        } else {
            shapes.push(Box::new(Strip(i, i % 13)));
        }
    }
    let mut sum = 0u64;
    for _ in 0..20 {
        sum = sum.wrapping_add(total(&shapes));
    }
    let small = pick(&shapes, |s| s.area() < 1000);
    println!("{} {}", sum, small);
}
