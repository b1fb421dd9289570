;;; edn-bridge-package-tests.el --- The package can be installed  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-package-tests-emacs (&rest args)
  "Run Emacs in batch with ARGS; return its status and output."
  (with-temp-buffer
    (list (apply #'call-process
                 (expand-file-name invocation-name invocation-directory)
                 nil t nil "-Q" "--batch" args)
          (buffer-string))))

(ert-deftest edn-bridge-package-is-built-and-installs ()
  (skip-unless (executable-find "tar"))
  (let ((folder (make-temp-file "edn-bridge-package" t)))
    (unwind-protect
        (pcase-let* ((`(,status ,output)
                      (edn-bridge-package-tests-emacs
                       "-l" (expand-file-name "../build-package.el"
                                              edn-bridge-test-directory)
                       folder))
                     (tar (car (directory-files folder t "\\.tar\\'"))))
          (ert-info (output)
            (should (zerop status))
            (should tar))
          (pcase-let ((`(,status ,output)
                       (edn-bridge-package-tests-emacs
                        "--eval"
                        (format "(setq package-user-dir %S)"
                                (expand-file-name "elpa" folder))
                        "--eval" "(package-initialize)"
                        "--eval" (format "(package-install-file %S)" tar)
                        "--eval" "(princ (list (commandp 'edn-bridge) (commandp 'edn-bridge-ask-region)))"
                        ;; The first that is used of it may be any command.
                        "--eval" "(setq edn-bridge-program \"/no/such/program\")"
                        "--eval" "(with-temp-buffer (insert \"some text\") (edn-bridge-add-region (point-min) (point-max)))"
                        "--eval" "(set-buffer (car (edn-bridge-chat-buffers)))"
                        "--eval" "(princ (buffer-string))")))
            (ert-info (output)
              (should (zerop status))
              (should (string-match-p "(t t)" output))
              (should (string-match-p "The program /no/such/program was not found"
                                      output))
              (should (string-match-p "some text\n```" output))
              ;; What Emacs would show to who installs it.
              (should-not (string-match-p "edn-bridge[a-z-]*\\.el:.*Warning"
                                          output)))))
      (delete-directory folder t))))

(ert-deftest edn-bridge-package-recipe-names-its-files ()
  "The recipe for MELPA has the files of the tar that this project makes."
  (let* ((root (expand-file-name "../.." edn-bridge-test-directory))
         (recipe (with-temp-buffer
                   (insert-file-contents
                    (expand-file-name "packaging/melpa/edn-bridge" root))
                   (read (current-buffer))))
         (noninteractive nil))
    (load (expand-file-name "emacs/build-package.el" root) nil t)
    (should (eq (car recipe) 'edn-bridge))
    (should (equal (sort (seq-remove
                          (lambda (file)
                            (string-match-p "-\\(?:autoloads\\|pkg\\)\\.el\\'" file))
                          (mapcan (lambda (glob)
                                    (file-expand-wildcards
                                     (expand-file-name glob root)))
                                  (plist-get (cdr recipe) :files)))
                         #'string<)
                   (sort (build-package-files) #'string<)))))

(defun edn-bridge-package-tests-install-clone (form)
  "Install the package by FORM, with %S for the address of a clone.
As a user does who has nothing else, in another Emacs."
  (let ((folder (make-temp-file "edn-bridge-clone" t))
        (source (expand-file-name "../.." edn-bridge-test-directory)))
    (unwind-protect
        (let ((clone (expand-file-name "edn-bridge" folder)))
          (make-directory clone)
          (copy-directory (expand-file-name "emacs" source)
                          (expand-file-name "emacs" clone) t t t)
          (let ((default-directory clone))
            (dolist (args '(("init" "-q") ("add" ".")
                            ("-c" "user.name=x" "-c" "user.email=x@y"
                             "commit" "-q" "-m" "x")))
              (should (zerop (apply #'call-process "git" nil nil nil args)))))
          (pcase-let ((`(,status ,output)
                       (edn-bridge-package-tests-emacs
                        "--eval"
                        (format "(setq package-archives nil package-user-dir %S)"
                                (expand-file-name "elpa" folder))
                        "--eval" "(require 'package-vc)"
                        "--eval" "(package-initialize)"
                        "--eval" (format form clone)
                        "--eval" "(princ (list (commandp 'edn-bridge) (keymapp 'edn-bridge-command-map)))")))
            (ert-info (output)
              (should (zerop status))
              (should (string-match-p "(t t)" output))
              (should-not (string-match-p "[1-9][0-9]* failed" output))
              ;; Emacs warns of files that it has made itself, too.
              (should-not (seq-filter
                           (lambda (line)
                             (and (string-match-p "\\.el:.*\\(?:Warning\\|Error\\)"
                                                  line)
                                  (not (string-match-p
                                        "-\\(?:autoloads\\|pkg\\)\\.el:" line))))
                           (split-string output "\n"))))))
      (delete-directory folder t))))

;; The forms are those of the manual.

;; Older versions of Emacs have no way to do these.
(when (require 'package-vc nil t)
  (ert-deftest edn-bridge-package-is-installed-from-a-clone ()
    (skip-unless (executable-find "git"))
    (edn-bridge-package-tests-install-clone
     "(package-vc-install '(edn-bridge :url %S :lisp-dir \"emacs\"))")))

(when (>= emacs-major-version 30)
  (ert-deftest edn-bridge-package-is-installed-by-use-package ()
    (skip-unless (executable-find "git"))
    (edn-bridge-package-tests-install-clone
     "(use-package edn-bridge :vc (:url %S :lisp-dir \"emacs\" :rev :newest))")))

(defun edn-bridge-package-tests-requires (file)
  "Return the files of the package that FILE requires, without prefix."
  (with-temp-buffer
    (insert-file-contents file)
    (let ((names nil))
      (while (re-search-forward "^(require 'edn-bridge-\\([a-z-]+\\))" nil t)
        (push (match-string 1) names))
      (nreverse names))))

(defconst edn-bridge-package-tests-order
  '("constants" "edn" "rpc" "program" "settings" "faces" "visible" "view" "transcript" "markdown-inline" "markdown-table"
    "markdown-code" "markdown" "chat-state" "chat-place" "chat-header" "chat" "buffers" "messages" "said"
    "complete" "input" "queue" "diff" "tools-output" "tools" "shell" "follow" "diagnostics" "files" "undo" "ediff" "interact"
    "interact-kinds" "actions" "work" "attention" "sessions" "agents" "models" "auth" "trust" "rules" "mcp" "tree" "chats" "jobs"
    "side"
    "ask" "add" "rewrite" "context" "hands" "hands-tools" "query" "log" "daemon" "doctor" "usage" "drafts" "batch")
  "The files of the package; each may use those before it.")

(ert-deftest edn-bridge-package-depends-in-one-direction ()
  (let ((folder (expand-file-name ".." edn-bridge-test-directory))
        (seen nil))
    (dolist (name edn-bridge-package-tests-order)
      (let ((file (expand-file-name (format "edn-bridge-%s.el" name) folder)))
        (dolist (required (edn-bridge-package-tests-requires file))
          (ert-info ((format "%s requires %s" name required))
            (should (member required seen))))
        (push name seen)))
    (should (equal (sort (mapcar
                          (lambda (file)
                            (string-remove-suffix
                             ".el" (string-remove-prefix "edn-bridge-" file)))
                          (seq-remove
                           (lambda (file)
                             (string-match-p
                              "-\\(?:autoloads\\|pkg\\)\\.el\\'" file))
                           (directory-files
                            folder nil "\\`edn-bridge-[a-z-]*\\.el\\'")))
                         #'string-lessp)
                   (sort (copy-sequence edn-bridge-package-tests-order)
                         #'string-lessp)))))

;;;; The manual

(defun edn-bridge-package-tests-manual ()
  "Return the text of the manual."
  (with-temp-buffer
    (insert-file-contents
     (expand-file-name "../README.md" edn-bridge-test-directory))
    (buffer-string)))

(defun edn-bridge-package-tests-symbols (predicate)
  "Return the names of the package that PREDICATE holds for, but private ones."
  (let ((names nil))
    (mapatoms
     (lambda (symbol)
       (let ((name (symbol-name symbol)))
         (when (and (string-match-p "\\`edn-bridge\\(-\\|\\'\\)" name)
                    (not (string-match-p
                          "--\\|\\`edn-bridge-\\(test\\|example\\|[a-z]+-tests\\)"
                          name))
                    (funcall predicate symbol))
           (push name names)))))
    (sort names #'string-lessp)))

(defun edn-bridge-package-tests-missing (predicate)
  "Return the names that PREDICATE holds for and the manual does not have."
  (let ((text (edn-bridge-package-tests-manual)))
    (seq-remove (lambda (name)
                  (string-match-p (format "`\\(?:M-x \\)?%s`" (regexp-quote name))
                                  text))
                (edn-bridge-package-tests-symbols predicate))))

(ert-deftest edn-bridge-package-manual-names-every-command ()
  (should-not (edn-bridge-package-tests-missing
               (lambda (symbol)
                 (and (commandp symbol)
                      ;; Major modes are entered by the commands.
                      (not (get symbol 'derived-mode-parent))
                      (not (eq symbol 'edn-bridge-chat-mode)))))))

(ert-deftest edn-bridge-package-manual-names-every-option ()
  (should-not (edn-bridge-package-tests-missing
               (lambda (symbol)
                 (and (custom-variable-p symbol)
                      ;; A minor mode is a command too.
                      (not (commandp symbol)))))))

(ert-deftest edn-bridge-package-manual-names-every-hook ()
  (should-not (edn-bridge-package-tests-missing
               (lambda (symbol)
                 (and (boundp symbol)
                      (string-match-p "-\\(hook\\|functions\\|function\\)\\'"
                                      (symbol-name symbol))
                      (or (eq symbol 'edn-bridge-chat-mode-hook)
                          (not (string-match-p "-mode-\\(?:on-\\|off-\\)?hook\\'"
                                               (symbol-name symbol)))))))))

(ert-deftest edn-bridge-package-manual-names-the-library ()
  (should-not (edn-bridge-package-tests-missing
               (lambda (symbol)
                 (and (fboundp symbol)
                      (string-match-p
                       "\\`edn-bridge-\\(?:rpc-\\(?:[^c]\\|c[^o]\\|connect\\'\\)\\|edn-\\)"
                       (symbol-name symbol)))))))

(ert-deftest edn-bridge-package-manual-names-only-what-there-is ()
  (let ((text (edn-bridge-package-tests-manual))
        (start 0)
        (unknown nil))
    (while (string-match "`\\(?:M-x \\)?\\(edn-bridge[a-z-]*\\)`" text start)
      (let ((symbol (intern (match-string 1 text))))
        (unless (or (fboundp symbol) (boundp symbol)
                    ;; The program itself, and a package.
                    (memq symbol '(edn-bridge)))
          (push symbol unknown)))
      (setq start (match-end 0)))
    (should-not unknown)))

(defun edn-bridge-package-tests-rows ()
  "Return the pairs of keys and commands of the manual's tables."
  (let ((pairs nil))
    (dolist (line (split-string (edn-bridge-package-tests-manual) "\n"))
      (when (string-match "\\`| \\(`.*?`\\) | \\(`edn-bridge.*?\\|`completion.*?\\) |" line)
        (let* ((names (match-string 2 line))
               (keys (split-string (match-string 1 line) "[`]+ ?" t))
               (commands (split-string names "[` ]+" t)))
          (when (= (length keys) (length commands))
            (setq pairs (append pairs (cl-mapcar #'cons keys commands)))))))
    pairs))

(ert-deftest edn-bridge-package-manual-has-the-keys-as-they-are ()
  (let ((rows (edn-bridge-package-tests-rows))
        (keys nil))
    (should (> (length rows) 20))
    (pcase-dolist (`(,key . ,command) rows)
      (ert-info (key)
        (should (eq (lookup-key edn-bridge-chat-mode-map (kbd key))
                    (intern command)))))
    (map-keymap-internal
     (lambda (event definition)
       (cl-labels ((walk (prefix definition)
                     (when (stringp (car-safe definition))
                       ;; Its label.
                       (setq definition (cdr definition)))
                     (if (keymapp definition)
                         (map-keymap-internal
                          (lambda (event definition)
                            (walk (vconcat prefix (vector event)) definition))
                          definition)
                       (when (commandp definition)
                         (push prefix keys)))))
         (walk (vector event) definition)))
     edn-bridge-chat-mode-map)
    (should-not (seq-remove (lambda (key)
                              (cl-find key rows
                                       :test (lambda (key row)
                                               (equal (key-description key)
                                                      (key-description
                                                       (kbd (car row)))))))
                            keys))))

(ert-deftest edn-bridge-package-manual-has-the-example-that-is-tested ()
  (let ((example (with-temp-buffer
                   (insert-file-contents
                    (expand-file-name "edn-bridge-example.el"
                                      edn-bridge-test-directory))
                   (search-forward "(require 'edn-bridge-rpc)")
                   (buffer-substring (match-beginning 0)
                                     (progn (search-forward "\n    buffer))")
                                            (point))))))
    (should (<= (length (split-string example "\n")) 30))
    (should (string-search example (edn-bridge-package-tests-manual)))))

(provide 'edn-bridge-package-tests)

;;; edn-bridge-package-tests.el ends here
