;;; edn-bridge-packages-tests.el --- Tests beside other packages  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What people have beside this package: completion, keys, version control.
;; EDN_BRIDGE_PACKAGES names a folder with their sources, one folder each,
;; as fetch-packages.sh prints it.  Without it, and where one of them is
;; missing or not for this Emacs, its test is skipped.

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-terminal-tests)

(defconst edn-bridge-packages-tests-folder
  (let ((folder (getenv "EDN_BRIDGE_PACKAGES")))
    (and folder (not (equal folder "")) folder))
  "The folder with the packages, or nil.")

(defun edn-bridge-packages-tests-folders ()
  "Return the folders of the packages, and of their extensions.
What newer versions of Emacs have themselves is left out there."
  (mapcan (lambda (folder)
            (let ((more (expand-file-name "extensions" folder)))
              (cons folder (and (file-directory-p more) (list more)))))
          (seq-remove (lambda (folder)
                        (and (string-match-p "/which-key-" folder)
                             (>= emacs-major-version 30)))
                      (and edn-bridge-packages-tests-folder
                           (directory-files edn-bridge-packages-tests-folder t
                                            "\\`[a-z]")))))

(defun edn-bridge-packages-tests-missing (libraries)
  "Return those of LIBRARIES that cannot be found."
  (let ((load-path (append (edn-bridge-packages-tests-folders) load-path)))
    (seq-remove (lambda (library) (locate-library (symbol-name library)))
                libraries)))

(defmacro edn-bridge-packages-tests-with (libraries form &rest body)
  "Run BODY with an Emacs in a terminal that loads LIBRARIES and runs FORM."
  (declare (indent 2) (debug t))
  `(progn
     (skip-unless (and edn-bridge-packages-tests-folder
                       (not (edn-bridge-packages-tests-missing ',libraries))))
     (let ((edn-bridge-terminal-tests-setup
            (list 'progn
                  ;; What others' files are warned of is not looked at.
                  '(setq warning-minimum-level :emergency)
                  (list 'setq 'load-path
                        (list 'append
                              (list 'quote (edn-bridge-packages-tests-folders))
                              'load-path))
                  '(mapc #'require ',libraries)
                  ',form)))
       (edn-bridge-terminal-tests-with-emacs "keys.edn"
         ,@body))))

(ert-deftest edn-bridge-packages-vertico-keeps-the-order ()
  (edn-bridge-packages-tests-with (vertico orderless marginalia embark)
      (progn (vertico-mode) (marginalia-mode)
             (setq completion-styles '(orderless basic))
             (global-set-key (kbd "C-x .") 'embark-act))
    (edn-bridge-terminal-tests-do
     '("C-c" "C-o" "p")
     "Permissions: *\nask .*\naccept-edits .*\nread-only .*\nyolo "
     '("yol" "Enter") "^Permissions: yolo"
     ;; The session that was used last comes first.
     '("Hi" "C-c" "Enter") "You\nHi" "the notes\\." 'ended
     '("C-c" "C-n") "New session"
     '("C-c" "C-o" "p") "Permissions:" '("yol" "Enter") "^Permissions: yolo"
     '("there" "C-c" "Enter") "You\nthere" "Ran one\\." 'ended
     '("C-c" "C-s") "Session: *\nthere .*here.*\nHi " '("C-x" ".") "^Act"
     '("w") '("C-y") "^─+\nthere" '("C-a" "C-k"))
    (edn-bridge-terminal-tests-do '("M-x") "M-x")
    (edn-bridge-terminal-tests-type "-l" "edn-bridge-rewrite")
    (edn-bridge-terminal-tests-do "edn-bridge-rewrite-region")
    (should-not (string-search "edn-bridge-rewrite--"
                               (edn-bridge-terminal-tests-screen)))))

(ert-deftest edn-bridge-packages-corfu-shows-its-popup-at-the-draft ()
  (edn-bridge-packages-tests-with (corfu popon corfu-terminal orderless)
      (progn (global-corfu-mode) (corfu-terminal-mode)
             (setq completion-styles '(orderless basic)))
    ;; In a chat without any message, and in one that has some.
    (dotimes (round 2)
      (edn-bridge-terminal-tests-type "-l" "/mod")
      ;; It would not open by itself while events come.  What commands do
      ;; may be told later than it opens.
      (edn-bridge-terminal-tests-do "^─+\n/mod" '("Tab")
                                    "^─+\n/mode? *\n mode\\b.*\n model\\b"
                                    '("Enter") '("C-a" "C-k"))
      (edn-bridge-terminal-tests-type "-l" "see @otes")
      ;; There is one.
      (edn-bridge-terminal-tests-do "^see @otes" '("Tab") "^see @notes.txt"
                                    '("C-a" "C-k"))
      (when (zerop round)
        (edn-bridge-terminal-tests-do '("Hi" "C-c" "Enter") "You\nHi"
                                      "the notes\\." 'ended)))))

(defun edn-bridge-packages-tests-popups ()
  "Write / and @ in the draft, and see that each opens a popup by itself.
The commands are in the order of the bridge's table."
  ;; What commands do comes after the session.
  (edn-bridge-terminal-tests-say "Hi")
  (edn-bridge-terminal-tests-do 'ended 'draft)
  (edn-bridge-terminal-tests-type "-l" "/")
  (edn-bridge-terminal-tests-do "^─+\n/ *\n +help\\b" '("C-g" "C-a" "C-k"))
  (edn-bridge-terminal-tests-type "-l" "/mode ")
  (edn-bridge-terminal-tests-do "^─+\n/mode *\n +ask.*\n +accept-edits"
                                '("C-g" "C-a" "C-k"))
  (edn-bridge-terminal-tests-type "-l" "see @")
  (edn-bridge-terminal-tests-do "^see @.*\n +[a-zA-Z.]+"))

(ert-deftest edn-bridge-packages-corfu-opens-by-itself ()
  (edn-bridge-packages-tests-with (corfu popon corfu-terminal)
      (progn (setq corfu-auto t corfu-auto-delay 0.05)
             (global-corfu-mode) (corfu-terminal-mode)
             (global-set-key (kbd "<escape>") 'corfu-quit))
    (edn-bridge-packages-tests-popups)))

(ert-deftest edn-bridge-packages-company-opens-by-itself ()
  (edn-bridge-packages-tests-with (company company-capf)
      (progn (global-company-mode)
             (setq company-idle-delay 0.05 company-backends '(company-capf)))
    (edn-bridge-packages-tests-popups)))

(ert-deftest edn-bridge-packages-company-shows-its-popup-at-the-draft ()
  (edn-bridge-packages-tests-with (company company-capf)
      (progn (global-company-mode)
             (global-set-key (kbd "C-c x") 'company-complete)
             (setq company-idle-delay nil company-backends '(company-capf)))
    (edn-bridge-terminal-tests-type "-l" "/mod")
    (edn-bridge-terminal-tests-do "^─+\n/mod" '("C-c" "x")
                                  "^─+\n/mode? *\n +mode\\b.*\n +model\\b")))

(ert-deftest edn-bridge-packages-which-key-shows-labels ()
  (edn-bridge-packages-tests-with (which-key)
      (progn (setq which-key-idle-delay 0.2) (which-key-mode))
    (edn-bridge-terminal-tests-do
     '("C-c") "queue" '("C-o") "thinking level"
     '("n") "^Model: " '("C-c" "e") "rewrite region")))

(ert-deftest edn-bridge-packages-evil-finds-the-keys-of-the-text ()
  (edn-bridge-packages-tests-with (evil)
      (evil-mode)
    (edn-bridge-terminal-tests-do
     "<I>" '("Hi" "C-c" "Enter") "You\nHi" "the notes\\." 'ended
     '("one" "C-c" "Enter") "Allow once (y)"
     '("Escape") "<N>" '("C-c" "C-a") '("y") "Ran one\\."
     '("?" "touch one" "Enter") '("Enter") "▾ bash"
     '("Tab") "▸ bash"
     ;; Text goes to the draft from anywhere.
     '("g" "g" "i") "<I>" '("text") "^─+\ntext")))

(ert-deftest edn-bridge-packages-magit-takes-a-message ()
  (skip-unless (executable-find "git"))
  (edn-bridge-packages-tests-with (magit)
      (progn
        (setenv "GIT_AUTHOR_NAME" "a") (setenv "GIT_COMMITTER_NAME" "a")
        (setenv "GIT_AUTHOR_EMAIL" "a@b") (setenv "GIT_COMMITTER_EMAIL" "a@b")
        (dolist (args '(("init" "-q") ("add" "notes.txt")))
          (apply #'call-process "git" nil nil nil args))
        (defun packages-tests-commit ()
          (interactive)
          (magit-commit-create nil)))
    (edn-bridge-terminal-tests-do '("C-x" "C-f" "notes.txt" "Enter")
                                  "second line")
    (edn-bridge-terminal-tests-command "packages-tests-commit"
                                       "# Please enter the commit message")
    (edn-bridge-terminal-tests-do '("C-c" "e" "m") "The message is in COMMIT" "^(x)"
                                  "# Please enter"
                                  '("C-c" "C-k"))))

(provide 'edn-bridge-packages-tests)

;;; edn-bridge-packages-tests.el ends here
