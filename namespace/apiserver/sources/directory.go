package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DirectoryOptions tunes [Directory]. Zero fields, and a nil *DirectoryOptions, take
// the defaults; negative ones are refused with [namespace.ErrInvalid].
type DirectoryOptions struct {
	// MaxFile bounds one file, in bytes; default 1 MiB. A larger one is an error of that
	// file. MaxFiles bounds their number; default 1,000. More are an error of the source.
	MaxFile, MaxFiles int
	// Settle is how long a file must have stayed the same before it is taken, so that
	// one that is being written in place is not taken by half; default 1 s. A file that
	// is renamed into place may be younger than it looks: its time counts, not that of
	// the renaming.
	Settle time.Duration
}

const (
	defaultMaxFile  = 1 << 20
	defaultMaxFiles = 1000
	defaultSettle   = time.Second
)

// directory is a Source.
type directory struct {
	path    string
	options DirectoryOptions
}

// Directory returns a source of the files in a directory, ordered by name: those that
// end in .yaml, .yml or .json and do not begin with a dot, also by way of symbolic
// links. Subdirectories are not looked into. Its name is "file:" and the path, made
// absolute. It notices changes by reading: no file system needs to tell. An empty path
// is [namespace.ErrInvalid]; a directory that is missing is an error of Read.
func Directory(path string, o *DirectoryOptions) (Source, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, invalid("%q is not the path of a directory", path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, invalid("the path %q: %v", path, err)
	}
	d := directory{path: absolute}
	if o != nil {
		d.options = *o
	}
	switch opts := &d.options; {
	case opts.MaxFile < 0 || opts.MaxFiles < 0 || opts.Settle < 0:
		return nil, invalid("options MaxFile, MaxFiles and Settle must not be negative")
	default:
		opts.MaxFile = orDefault(opts.MaxFile, defaultMaxFile)
		opts.MaxFiles = orDefault(opts.MaxFiles, defaultMaxFiles)
		if opts.Settle == 0 {
			opts.Settle = defaultSettle
		}
	}
	return d, nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// Name implements [Source].
func (d directory) Name() string { return "file:" + filepath.ToSlash(d.path) }

// Read implements [Source].
func (d directory) Read(ctx context.Context) ([]File, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		name := entry.Name()
		if entry.IsDir() || !manifest(name) {
			continue
		}
		if len(files) == d.options.MaxFiles {
			return nil, fmt.Errorf("%s has more than %d files", d.path, d.options.MaxFiles)
		}
		data, err := d.readFile(filepath.Join(d.path, name))
		if errors.Is(err, errNoFile) {
			continue
		}
		files = append(files, File{Name: name, Data: data, Err: err})
	}
	return files, nil
}

func manifest(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// errNoFile says that a link leads to a directory.
var errNoFile = errors.New("not a file")

// readFile reads one file that does not change meanwhile.
func (d directory) readFile(path string) ([]byte, error) {
	before, err := os.Stat(path) // before it is opened: a pipe would block
	switch {
	case err != nil:
		return nil, err
	case before.IsDir():
		return nil, errNoFile
	case !before.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case before.Size() > int64(d.options.MaxFile):
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", before.Size(), d.options.MaxFile)
	}
	if age := time.Since(before.ModTime()); age >= 0 && age < d.options.Settle {
		return nil, ErrSettling
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, int64(d.options.MaxFile)+1))
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) || int64(len(data)) != before.Size() {
		return nil, ErrSettling
	}
	return data, nil
}
