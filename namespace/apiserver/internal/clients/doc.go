// Package clients holds tests of the API server with the clients that people use:
// the stock kubectl and client-go. It is a module of its own, so that the API
// server does not require them.
package clients
