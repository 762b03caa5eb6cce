// Command stuck is a museum of namespaces that are stuck in Terminating: it makes each
// of them in memory, and shows how the library explains it.
package main

func main() {}
