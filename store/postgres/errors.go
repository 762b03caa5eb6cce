package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nslifecycle/nslifecycle/store"
)

// The error codes of the server that matter here (PostgreSQL documentation, appendix A).
const (
	codeLockTimeout       = "55P03"
	codePrivilege         = "42501"
	codeReadOnly          = "25006"
	codeUndefinedTable    = "42P01"
	codeDuplicateTable    = "42P07"
	codeDuplicateSchema   = "42P06"
	codeDuplicateFunction = "42723"
	codeUnique            = "23505"
	codeInvalidSchema     = "3F000"
	codeNoDatabase        = "3D000"
	codePassword          = "28P01"
	codeAuthorization     = "28000"
	codeDiskFull          = "53100"
	codeUnknown           = "40003"
	codeAdminShutdown     = "57P01"
	codeCrashShutdown     = "57P02"
	codeCannotConnect     = "57P03"
	classConnection       = "08"
	classResources        = "53" // too many connections, out of memory, disk full
)

// code returns the error code of the server, or "".
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func timedOut(err error) bool { return code(err) == codeLockTimeout }

// errLate reports that a time limit of the driver has passed.
var errLate = errors.New("the database did not answer in time")

// late returns err of a call under limited, a context derived from ctx. If only limited has
// ended, the result is errLate, since the caller's context is still valid.
func late(ctx, limited context.Context, err error) error {
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	if code(err) != "" {
		return err
	}
	return fmt.Errorf("%w: %v", errLate, err)
}

// definite reports whether a commit that failed with err certainly wrote nothing: nothing was
// sent, or the server answered with an error other than its own end. Connection errors are not
// definite, because they may come from a pooler.
func definite(err error) bool {
	if errors.Is(err, errRolledBack) || pgconn.SafeToRetry(err) {
		return true
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) || strings.HasPrefix(e.Code, classConnection) {
		return false
	}
	// A server that lacks resources may end before it reaches COMMIT, the statement after this
	// one.
	var early *uncommittedError
	if errors.As(err, &early) && strings.HasPrefix(e.Code, classResources) {
		return true
	}
	switch e.Code {
	case codeUnknown, codeAdminShutdown, codeCrashShutdown, codeCannotConnect:
		return false
	}
	return e.SeverityUnlocalized == "ERROR" || e.SeverityUnlocalized == "" && e.Severity == "ERROR"
}

// refusal explains an error of a call that certainly wrote nothing.
func refusal(err error) error {
	switch {
	case code(err) == codeDiskFull:
		return fmt.Errorf("%w: the disk of the server is full: %w", store.ErrFull, err)
	case unavailable(err):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return explain(err)
}

// unavailable reports whether err means that the server cannot be reached, is starting or
// stopping, or lacks resources.
func unavailable(err error) bool {
	switch c := code(err); {
	case c == "":
	case strings.HasPrefix(c, classConnection), strings.HasPrefix(c, classResources):
		return true
	default:
		return c == codeAdminShutdown || c == codeCrashShutdown || c == codeCannotConnect
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, errLate) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err)
}

// explain adds the remedy to an error of the server.
func explain(err error) error {
	switch code(err) {
	case codePrivilege:
		return fmt.Errorf("%w: grant USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables: %w", ErrPrivilege, err)
	case codeReadOnly:
		return fmt.Errorf("%w: connect to the primary: %w", ErrReadOnly, err)
	case codeUndefinedTable, codeInvalidSchema:
		return fmt.Errorf("%w: a table or the schema is missing, open the store again: %w", store.ErrClosed, err)
	case codeNoDatabase:
		return fmt.Errorf("the database does not exist, create it first: %w", err)
	case codePassword, codeAuthorization:
		return fmt.Errorf("the server rejects the role, check user, password and pg_hba.conf: %w", err)
	}
	return err
}
