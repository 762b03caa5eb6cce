// The race detector multiplies the program's memory, so the test excludes race builds.

//go:build !race

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

// flood sends concurrent requests to a server. Each request has its own connection.
type flood struct {
	t       *testing.T
	address string
}

// request formats an HTTP request.
func request(method, path, contentType, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, contentType, len(body), body)
}

// send sends a request n times concurrently and returns the number of answers for each code.
// Each client reads only the first byte of its answer until all clients have received one.
func (f flood) send(n int, request string) map[int]int {
	f.t.Helper()
	codes := make(chan int, n)
	var begun, done sync.WaitGroup
	begun.Add(n)
	for range n {
		done.Go(func() {
			codes <- f.one(request, sync.OnceFunc(begun.Done), begun.Wait)
		})
	}
	done.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	return count
}

func (f flood) one(request string, begun, others func()) int {
	defer begun()
	c, err := net.Dial("tcp", f.address)
	if err != nil {
		return -1
	}
	defer c.Close()
	_, _ = io.WriteString(c, request) // the server may refuse the request before it has read all of it
	from := bufio.NewReaderSize(c, 16)
	if _, err := from.Peek(1); err != nil {
		return -2
	}
	begun()
	others()
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		return -3
	}
	return answer.StatusCode
}

// create sends a POST request and requires code 201.
func (f flood) create(path, body string) {
	f.t.Helper()
	require.Equal(f.t, map[int]int{http.StatusCreated: 1}, f.send(1, request("POST", path, "application/json", body)))
}

// fill stores 40 objects, 30 MB in total.
func (f flood) fill(path string) {
	f.t.Helper()
	for i := range 40 {
		f.create(path, fmt.Sprintf(`{"metadata":{"name":"x%d"},"data":{"x":%q}}`, i, strings.Repeat("x", 768<<10)))
	}
}

// heavy stores an object with the given array of values.
func (f flood) heavy(path, values string) {
	f.t.Helper()
	f.create(path, `{"metadata":{"name":"heavy"},"spec":{"x":[`+values+`]}}`)
}

// peak returns the peak memory of a process in MiB.
func peak(t *testing.T, p *programs.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.ID()))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kilobytes >> 10
}

// Authorized clients cannot make the server exceed its memory limit. The attacks include
// small documents with very many values, and answers that clients do not read.
func TestMemoryUnderAttack(t *testing.T) {
	t.Parallel()
	const most = 512 // MiB
	many := func(part string) string { return strings.TrimSuffix(strings.Repeat(part, 2_900_000/len(part)), ",") }
	const maps, free = "/api/v1/namespaces/default/configmaps", "/apis/example.com/v1/namespaces/default/t001"
	for name, attack := range map[string]func(f flood) map[int]int{
		"YAML": func(f flood) map[int]int {
			return f.send(16, request("POST", maps, "application/yaml", "metadata: {name: x}\na: ["+many("a,")+"]\n"))
		},
		"YAML within the bounds": func(f flood) map[int]int {
			return f.send(50, request("POST", maps, "application/yaml", "metadata: {name: x}\na: ["+many("a,")[:300_000]+"]\n"))
		},
		"JSON": func(f flood) map[int]int {
			return f.send(60, request("POST", free, "application/json", `{"metadata":{"name":"x"},"spec":{"x":[`+many("{},")+`]}}`))
		},
		"JSON within the bounds": func(f flood) map[int]int {
			return f.send(100, request("POST", free, "application/json", `{"metadata":{"name":"x"},"spec":{"x":[`+many("{},")[:600_000-1]+`]}}`))
		},
		"owners": func(f flood) map[int]int {
			return f.send(60, request("POST", maps, "application/json", `{"metadata":{"name":"x","ownerReferences":[`+many("{},")[:120_000-1]+`]}}`))
		},
		"patches": func(f flood) map[int]int {
			f.heavy(free, many("{},")[:450_000-1])
			return f.send(60, request("PATCH", free+"/heavy", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`))
		},
		"answers in YAML": func(f flood) map[int]int {
			f.heavy(free, many("{},")[:300_000-1])
			return f.send(60, strings.Replace(request("GET", free+"/heavy", "", ""), "\r\n", "\r\nAccept: application/yaml\r\n", 1))
		},
		"watches": func(f flood) map[int]int {
			f.fill(maps)
			return f.send(60, request("GET", maps+"?watch=true", "", ""))
		},
		"text": func(f flood) map[int]int {
			return f.send(60, request("POST", maps, "application/json", `{"metadata":{"name":"x","namespace":"other"},"data":{"x":"`+many("text ")+`"}}`))
		},
		"lists": func(f flood) map[int]int {
			f.fill(maps)
			return f.send(60, request("GET", maps, "application/json", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := programs.Self(t, "--listen", "127.0.0.1:0", "--store", "memory", "--controller=false", "--types", "1")
			_, address, _ := strings.Cut(p.Until(t, "^serving on "), "http://")
			codes := attack(flood{t, address})
			require.Less(t, peak(t, p), most, codes)
			for code := range codes {
				require.Contains(t, []int{200, 201, 409, 413, 422, 429}, code, codes)
			}
		})
	}
}
