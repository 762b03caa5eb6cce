package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// Each Go block of the README is part of an example, which is compiled and tested.
func TestREADMEShowsRealCode(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	var sources strings.Builder
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		data, err := os.ReadFile(path)
		sources.Write(data)
		return err
	})
	require.NoError(t, err)
	for _, block := range blocks {
		require.True(t, strings.Contains(sources.String(), block[1]), "no file contains this block of the README:\n%s", block[1])
	}
}

// Each link from a document of the project to a file of it leads to an existing file.
func TestLinksOfDocuments(t *testing.T) {
	block := regexp.MustCompile("(?s)```.*?```")
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range link.FindAllSubmatch(block.ReplaceAll(data, nil), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		return err
	})
	require.NoError(t, err)
}
