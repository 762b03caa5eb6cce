// Package force drops finalizers of a terminating namespace whose owners will not do
// it, on the record: what is left is listed and kept before, and can be swept after.
package force
