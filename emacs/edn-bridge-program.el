;;; edn-bridge-program.el --- Find the program, or build it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Where the edn-bridge program is.  A name is looked for where Emacs looks
;; for programs, on the remote host too; then in the checkout that this
;; package is in, and where Cargo installs programs.  `edn-bridge-build'
;; builds it.

;;; Code:

(require 'seq)
(require 'compile)
(require 'edn-bridge-rpc)

(defcustom edn-bridge-program "edn-bridge"
  "The program that is run: a name that is searched for, or a file name."
  :type 'string
  :risky t
  :group 'edn-bridge)

(defcustom edn-bridge-program-args nil
  "Arguments for the program, after \"serve\"."
  :type '(repeat string)
  :risky t
  :group 'edn-bridge)

(defcustom edn-bridge-program-source nil
  "Folder with the source of the program, for `edn-bridge-build'.
Nil means the checkout that this package is in, where it is in one."
  :type '(choice (const :tag "This package's checkout" nil) directory)
  :group 'edn-bridge)

(defconst edn-bridge-program--package
  (file-name-directory (or load-file-name buffer-file-name default-directory))
  "The folder that this package was loaded from.")

(defun edn-bridge-program-source ()
  "Return the folder with the source of the program, or nil."
  (seq-find (lambda (folder)
              (and folder
                   (file-exists-p (expand-file-name "Cargo.toml" folder))))
            (list edn-bridge-program-source
                  (expand-file-name ".." edn-bridge-program--package))))

(defun edn-bridge-program-find ()
  "Return the program's file for `default-directory', or nil."
  (or (edn-bridge-rpc-executable edn-bridge-program)
      (and (not (file-remote-p default-directory))
           ;; Who names a file means that file.
           (not (file-name-directory edn-bridge-program))
           (seq-find #'file-executable-p (edn-bridge-program--places)))))

(defun edn-bridge-program--places ()
  "Return the files that may be the program where no search path has it."
  (let ((source (edn-bridge-program-source)))
    (append
     ;; The second is what `make run' builds first.
     (and source
          (mapcar (lambda (profile)
                    (expand-file-name (concat profile edn-bridge-program)
                                      (edn-bridge-program--target source)))
                  '("release/" "quick/")))
     (list (expand-file-name (concat "bin/" edn-bridge-program)
                             (or (getenv "CARGO_HOME") "~/.cargo"))))))

(defun edn-bridge-program--target (source)
  "Return the folder in which Cargo builds what is in SOURCE."
  (expand-file-name (or (getenv "CARGO_TARGET_DIR") "target") source))

(defun edn-bridge-program-command (&rest arguments)
  "Return the command that runs the program with ARGUMENTS, a list of strings."
  (cons (or (edn-bridge-program-find) edn-bridge-program) arguments))

;;;; Building

(defun edn-bridge-program--build-command ()
  "Return the command that builds the program.
The embedded model is left out where what it needs is not installed."
  (if (seq-every-p #'executable-find '("cmake" "c++" "clang"))
      "cargo build --release --locked"
    "cargo build --release --locked --no-default-features --features index"))

;;;###autoload
(defun edn-bridge-build (source)
  "Build the program from its SOURCE, a folder, in a compilation buffer.
Interactively, that is the option `edn-bridge-program-source' or else the
checkout that this package is in; where there is neither, ask."
  (interactive
   (list (or (edn-bridge-program-source)
             (read-directory-name "Source of edn-bridge: " nil nil t))))
  (unless (file-exists-p (expand-file-name "Cargo.toml" source))
    (user-error "There is no Cargo.toml in %s; choose the folder of the project"
                source))
  (unless (executable-find "cargo")
    (user-error "The program cargo was not found; install Rust from https://rustup.rs"))
  (let* ((default-directory (file-name-as-directory (expand-file-name source)))
         (program (expand-file-name "release/edn-bridge"
                                    (edn-bridge-program--target source)))
         (buffer (compilation-start (edn-bridge-program--build-command) nil
                                    (lambda (_mode) "*edn-bridge build*"))))
    (with-current-buffer buffer
      (add-hook 'compilation-finish-functions
                (lambda (_buffer _outcome)
                  (edn-bridge-program--built program))
                nil t))
    buffer))

(defun edn-bridge-program--built (program)
  "Have PROGRAM, which should have been built now, be used."
  (cond
   ((not (file-executable-p program))
    (message "The build failed; see the buffer *edn-bridge build*"))
   ((edn-bridge-program-find)
    (message "Built.  %s is used from now on" (edn-bridge-program-find)))
   (t
    (setq edn-bridge-program program)
    (message "Built.  %s is used in this Emacs; customize `edn-bridge-program' to keep that"
             program))))

(provide 'edn-bridge-program)

;;; edn-bridge-program.el ends here
