// Package hold makes namespaces that are on hold Terminating when their time has come.
package hold
