//! Makes HTML of a Markdown file, so many times, with the crate pulldown-cmark.
#![feature(omit_gdb_pretty_printer_section)] // with relocations kept, objcopy cannot take that section out
#![omit_gdb_pretty_printer_section]
use pulldown_cmark::{html, Options, Parser};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&args[1]).expect("a Markdown file");
    let times: usize = args[2].parse().expect("a number");
    let mut out = String::new();
    let mut bytes = 0;
    for _ in 0..times {
        out.clear();
        html::push_html(&mut out, Parser::new_ext(&text, Options::all()));
        bytes += out.len();
    }
    println!("{}{}", out, bytes);
}
