package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DirectoryOptions are the options of [Directory]. Zero fields and a nil *DirectoryOptions mean the
// defaults.
type DirectoryOptions struct {
	// MaxFile limits the bytes of a file. Default: 1 MiB. A larger file is an error of that file.
	// MaxFiles limits the number of files. Default: 1,000. More files are an error of the source.
	MaxFile, MaxFiles int
	// MinAge is the time since the last modification after which a file is read, so that a
	// half-written file is not. Default: 1 s. Renaming a file does not change its modification
	// time.
	MinAge time.Duration
}

func (o DirectoryOptions) withDefaults() DirectoryOptions {
	o.MaxFile = cmp.Or(o.MaxFile, 1<<20)
	o.MaxFiles = cmp.Or(o.MaxFiles, 1000)
	o.MinAge = cmp.Or(o.MinAge, time.Second)
	return o
}

// directory is a Source.
type directory struct {
	path    string
	options DirectoryOptions
}

// Directory returns a source of the files in a directory, ordered by name. It reads files, also
// through symbolic links, that end in .yaml, .yml or .json and do not begin with a dot. It ignores
// subdirectories. The source's name is "file:" followed by the absolute path. It polls: it needs no
// notifications from the file system. A missing directory is an error of Read.
func Directory(path string, o *DirectoryOptions) (Source, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("manifests: %q is not the path of a directory", path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("manifests: the path %q: %w", path, err)
	}
	d := directory{path: absolute}
	if o != nil {
		d.options = *o
	}
	d.options = d.options.withDefaults()
	if d.options.MaxFile < 0 || d.options.MaxFiles < 0 || d.options.MinAge < 0 {
		return nil, errors.New("manifests: DirectoryOptions: MaxFile, MaxFiles and MinAge must not be negative")
	}
	return d, nil
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

// errNoFile reports a link to a directory.
var errNoFile = errors.New("not a file")

// readFile reads a file. It returns ErrChanging if the file was modified recently.
func (d directory) readFile(path string) ([]byte, error) {
	before, err := os.Stat(path) // opening a pipe would block
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
	if age := time.Since(before.ModTime()); age >= 0 && age < d.options.MinAge {
		return nil, ErrChanging
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
		return nil, ErrChanging
	}
	return data, nil
}
