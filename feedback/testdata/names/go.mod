module example.com/names

go 1.26

require example.com/dots.v2 v0.1.0

replace example.com/dots.v2 v0.1.0 => ./replaced
