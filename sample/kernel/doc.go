// Package kernel says where the code of Linux itself is, and what it is: the symbols that samplers need, the
// modules that are loaded, and the image at an address, each with its build ID; and it writes the code of the
// kernel or of a module, as it lies in memory, as an ELF file.
//
// It refuses what the kernel hides from this process: addresses are then 0, and what lies there
// has no image. Package collect takes over, which samples the kernel and reads its memory where /proc/kcore is not
// there, package image, which reads the ELF file, and whoever has files of
// the kernel whose build IDs are to be compared with those of this machine.
package kernel
