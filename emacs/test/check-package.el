;;; check-package.el --- The package as others install it  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; HOME=EMPTY emacs -Q --batch -l emacs/test/check-package.el TAR
;;
;; Installs TAR, which build-package.el has made, and looks at what a person
;; gets: no warning of the byte compiler, every autoload, the manual, and no
;; file outside of `user-emacs-directory'.  `make melpa' runs it on each Emacs.
;; Ends with status 0 where all is well, else 1.

;;; Code:

(require 'cl-lib)
(require 'package)
(require 'bytecomp)
(require 'info)

(defvar check-package-failures nil
  "What is wrong, a list of strings, last first.")

(defun check-package-that (condition format &rest args)
  "Note that what FORMAT and ARGS say is wrong, unless CONDITION holds."
  (unless condition
    (push (apply #'format format args) check-package-failures)))

(defun check-package-autoloads (folder)
  "Return the commands and macros that the files in FOLDER have autoloaded."
  (let ((found nil))
    (dolist (file (directory-files folder t "\\`edn-bridge.*[a-z]\\.el\\'"))
      (unless (string-match-p "-\\(?:autoloads\\|pkg\\)\\.el\\'" file)
        (with-temp-buffer
          (insert-file-contents file)
          (while (re-search-forward
                  "^;;;###autoload\n(\\(?:\\(?:cl-\\)?defun\\|defmacro\\|define-minor-mode\\) \\([^ \n]+\\)"
                  nil t)
            (push (intern (match-string 1)) found)))))
    found))

(defun check-package-set-up ()
  "Have packages below `user-emacs-directory'."
  (setq package-archives nil
        package-user-dir (expand-file-name "elpa" user-emacs-directory))
  (make-directory user-emacs-directory t)
  (package-initialize))

(defun check-package-folder ()
  "Return the folder of the installed package."
  (package-desc-dir (cadr (assq 'edn-bridge package-alist))))

(defun check-package-install (tar)
  "Install the package TAR and look at what the byte compiler says."
  (check-package-set-up)
  (let ((inhibit-message t))
    (package-install-file tar))
  (when-let ((log (get-buffer "*Compile-Log*")))
    (with-current-buffer log
      (goto-char (point-min))
      (while (re-search-forward "^.*\\(?:Warning\\|Error\\):.*$" nil t)
        (check-package-that nil "%s" (match-string 0)))))
  (dolist (file (directory-files (check-package-folder) t
                                 "\\`edn-bridge.*[a-z]\\.el\\'"))
    (unless (string-match-p "-\\(?:autoloads\\|pkg\\)\\.el\\'" file)
      (check-package-that (file-exists-p (concat file "c"))
                          "%s does not compile" file))))

(defun check-package-use ()
  "Look at the installed package as one does who has just started Emacs."
  (check-package-set-up)
  (let* ((folder (check-package-folder))
         (commands (check-package-autoloads folder)))
    (check-package-that (not (featurep 'edn-bridge))
                        "The package is loaded before it is used")
    (check-package-that (> (length commands) 15) "Autoloads are missing")
    (dolist (command commands)
      (check-package-that (autoloadp (symbol-function command))
                          "%s is not autoloaded" command))
    (check-package-that (keymapp 'edn-bridge-command-map)
                        "edn-bridge-command-map is no keymap")
    (when (file-exists-p (expand-file-name "edn-bridge.info" folder))
      (check-package-that (save-window-excursion
                            (ignore-errors
                              (info "(edn-bridge)Index of commands")
                              t))
                          "Emacs does not find the manual"))
    (setq-default edn-bridge-program "/no/such/program")
    (let ((default-directory temporary-file-directory))
      (edn-bridge)
      (goto-char (point-max))
      (insert "a draft")
      (dolist (command '(edn-bridge-doctor edn-bridge-chats))
        (funcall command))
      (edn-bridge-attention-mode))
    (run-hooks 'kill-emacs-hook)
    (dolist (file (directory-files-recursively (expand-file-name "~/") "" nil))
      (check-package-that
       (file-in-directory-p file user-emacs-directory)
       "%s is outside of user-emacs-directory" file))))

;; A file that the byte compiler has loaded is autoloaded no more: the
;; package is used by an Emacs of its own.
(let ((tar (pop command-line-args-left)))
  (if (equal tar "use")
      (check-package-use)
    (check-package-install (expand-file-name tar))
    (with-temp-buffer
      (check-package-that
       (eq 0 (call-process (expand-file-name invocation-name
                                             invocation-directory)
                           nil t nil "-Q" "--batch" "-l"
                           (or load-file-name buffer-file-name) "use"))
       "%s" (string-trim (buffer-string))))))
(setq kill-emacs-hook nil)
(dolist (text (reverse check-package-failures))
  (message "%s" text))
(message "Emacs %s: %d failures" emacs-version (length check-package-failures))
(kill-emacs (if check-package-failures 1 0))

;;; check-package.el ends here
