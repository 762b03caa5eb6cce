package architecture_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors are the oldest versions without a known vulnerability that affects this project.
var floors = map[string][3]int{
	"golang.org/x/net":             {0, 45, 0},
	"golang.org/x/crypto":          {0, 45, 0},
	"golang.org/x/oauth2":          {0, 27, 0},
	"golang.org/x/text":            {0, 3, 8},
	"google.golang.org/grpc":       {1, 56, 3},
	"google.golang.org/protobuf":   {1, 33, 0},
	"github.com/golang-jwt/jwt/v5": {5, 2, 2},
	"github.com/jackc/pgx/v5":      {5, 9, 2},
	"github.com/gogo/protobuf":     {1, 3, 2},
	"gopkg.in/yaml.v3":             {3, 0, 1},
	"gopkg.in/go-jose/go-jose.v2":  {2, 6, 3},
}

var requirement = regexp.MustCompile(`(?m)^\s*(?:require )?(\S+) v(\d+)\.(\d+)\.(\d+)`)

// No module requires a version with a known vulnerability as its least.
func TestFloors(t *testing.T) {
	t.Parallel()
	modules := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		modules++
		content, err := os.ReadFile(path)
		for _, m := range requirement.FindAllStringSubmatch(string(content), -1) {
			least, known := floors[m[1]]
			if !known {
				continue
			}
			for i := range least {
				n, err := strconv.Atoi(m[2+i])
				require.NoError(t, err)
				if n > least[i] {
					break
				}
				require.GreaterOrEqual(t, n, least[i], "%s requires %s, the floor is %v", path, strings.TrimSpace(m[0]), least)
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, modules, 8)
}
