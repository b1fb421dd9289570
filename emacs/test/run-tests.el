;;; run-tests.el --- Everything that is checked of the package  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; emacs -Q --batch -l emacs/test/run-tests.el
;;
;; Byte-compiles with warnings as errors, runs checkdoc, package-lint where
;; it is installed, and ERT.  EDN_BRIDGE_PROGRAM names the program that the
;; tests of a live connection run; without it they are skipped, and said so.
;; EDN_BRIDGE_TESTS may name a regexp of the tests to run.
;;
;; Ends with status 0 where all is well, else 1.

;;; Code:

(require 'cl-lib)
(require 'bytecomp)
(require 'checkdoc)
(require 'ert)

(defconst run-tests-directory
  (file-name-directory (or load-file-name buffer-file-name))
  "The folder of the tests.")

(defconst run-tests-package
  (file-name-directory (directory-file-name run-tests-directory))
  "The folder of the package.")

(defconst run-tests-sources
  (directory-files run-tests-package t "\\`edn-bridge.*\\.el\\'")
  "The files of the package.")

(setq run-tests-sources
      (cl-remove-if (lambda (file)
                      (string-match-p "-\\(?:autoloads\\|pkg\\)\\.el\\'" file))
                    run-tests-sources))

(defvar run-tests-failures nil
  "What is wrong, a list of strings, last first.")

(defun run-tests-fail (format &rest args)
  "Note a failure, described by FORMAT with ARGS."
  (let ((text (apply #'format format args)))
    (message "%s" text)
    (push text run-tests-failures)))

(defun run-tests-compile (files target)
  "Byte-compile FILES into the folder TARGET, with warnings as errors."
  (let ((byte-compile-error-on-warn t)
        (byte-compile-dest-file-function
         (lambda (file)
           (expand-file-name (concat (file-name-nondirectory file) "c")
                             target))))
    (dolist (file files)
      (unless (byte-compile-file file)
        (run-tests-fail "%s: does not compile" (file-name-nondirectory file))))))

(defun run-tests-checkdoc (files)
  "Run checkdoc over FILES."
  (let ((checkdoc-force-docstrings-flag t)
        (checkdoc-verb-check-experimental-flag nil)
        (checkdoc-create-error-function
         (lambda (text start _end &optional _unfixable)
           (run-tests-fail "%s:%d: %s"
                           (file-name-nondirectory (buffer-file-name))
                           (if start (line-number-at-pos start) 0)
                           text)
           nil)))
    (dolist (file files)
      (with-current-buffer (find-file-noselect file)
        (let ((inhibit-message nil))
          (checkdoc-current-buffer t))
        (set-buffer-modified-p nil)
        (kill-buffer)))))

(defvar package-lint-main-file)
(declare-function package-lint-buffer "package-lint")

(defconst run-tests-lint-allowed
  (concat
   ;; Without an archive's list package-lint knows no Emacs but old ones.
   "Package emacs-28.1 is not installable"
   "\\|uninstallable in all released Emacs versions"
   ;; The project has no page to name yet.
   "\\|should have a Homepage or URL header")
  "Matches the complaints of package-lint that are let pass.")

(defun run-tests-package-lint (files)
  "Run package-lint over FILES, where it is installed."
  (dolist (folder (file-expand-wildcards
                   "/usr/share/emacs/site-lisp/elpa/package-lint-*"))
    (add-to-list 'load-path folder))
  (if (not (require 'package-lint nil t))
      (message "package-lint is not installed: left out")
    (let ((package-lint-main-file
           (expand-file-name "edn-bridge.el" run-tests-package)))
      (dolist (file files)
        (with-current-buffer (find-file-noselect file)
          (pcase-dolist (`(,line ,_column ,type ,text) (package-lint-buffer))
            (unless (string-match-p run-tests-lint-allowed text)
              (run-tests-fail "%s:%d: %s: %s"
                              (file-name-nondirectory file) line type text)))
          (kill-buffer))))))

(defun run-tests-ert ()
  "Run ERT over the test files."
  (dolist (file (directory-files run-tests-directory nil
                                 "\\`edn-bridge-.*-tests\\.el\\'"))
    ;; Some use the macros of another: each is loaded once.
    (require (intern (file-name-sans-extension file))))
  (let* ((selector (or (getenv "EDN_BRIDGE_TESTS") t))
         (stats (ert-run-tests-batch selector)))
    ;; A test that quits is for ERT no unexpected result.
    (let ((failed (- (ert-stats-total stats)
                     (ert-stats-completed-expected stats)
                     (ert-stats-skipped stats))))
      (unless (zerop failed)
        (run-tests-fail "%d tests failed" failed)))))

(defun run-tests ()
  "Check everything and end Emacs."
  (let ((compiled (make-temp-file "edn-bridge-elc" t)))
    (unwind-protect
        (progn
          (push run-tests-package load-path)
          (push run-tests-directory load-path)
          (run-tests-compile run-tests-sources compiled)
          (run-tests-checkdoc run-tests-sources)
          (run-tests-package-lint run-tests-sources)
          ;; The tests see the compiled files, as users do.  Compiling has
          ;; loaded the sources of most, so that `require' would not do.
          (push compiled load-path)
          (dolist (file (directory-files compiled t "\\.elc\\'"))
            (load file nil t))
          (run-tests-ert)
          (message "\nemacs: these were the tests on Emacs %s" emacs-version))
      (delete-directory compiled t)))
  (if run-tests-failures
      (progn
        (message "\nemacs: %d failures" (length run-tests-failures))
        (dolist (text (reverse run-tests-failures))
          (message "  %s" text))
        (kill-emacs 1))
    (message "\nemacs: all is well")
    (kill-emacs 0)))

(run-tests)

;;; run-tests.el ends here
