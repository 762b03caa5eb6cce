// Package debug serves pages that show which namespaces are going and what keeps
// them, in the manner of net/http/pprof: mount [Handler] and open it in a browser.
package debug
