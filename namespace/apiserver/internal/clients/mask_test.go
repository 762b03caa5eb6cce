package clients

import (
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Parts of the output that vary between runs.
var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`(resourceVersion"?: ?"?)\d+`), "${1}RV"},
	{regexp.MustCompile(`(?i)(resource version:\s+)\d+`), "${1}RV"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "SERVER"},
	// Ages keep the width of the column, so that later columns stay aligned.
	{regexp.MustCompile(`\b\d\ds( |$|\n)`), "AGE$1"},
	{regexp.MustCompile(`\b\ds ( |$|\n)`), "AGE$1"},
	{regexp.MustCompile(`\b\ds($|\n)`), "AGE$1"},
}

func masked(ts *testscript.TestScript, text string) string {
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.mask)
	}
	return text
}
