;;; edn-bridge-view-tests.el --- The keys of every view  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; All modes of the package are walked: each is a view, or one of the few
;; that are not.  With Evil, which EDN_BRIDGE_PACKAGES has, every key of
;; every view is looked up in each state.

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-packages-tests)

(defconst edn-bridge-view-tests-others
  '(edn-bridge-chat-mode                ; a chat
    edn-bridge-query-mode)              ; queries are written there
  "The major modes of the package that are no views.")

(defconst edn-bridge-view-tests-keys '("q" "g" "?" "n" "p" "TAB" "RET")
  "The keys that every view has.")

(defun edn-bridge-view-tests-modes ()
  "Return the major modes of the package, without those of its tests."
  (let ((found nil))
    (mapatoms
     (lambda (symbol)
       (when (and (string-match-p "\\`edn-bridge-.*-mode\\'" (symbol-name symbol))
                  (fboundp symbol)
                  (or (get symbol 'derived-mode-parent)
                      (and (boundp (intern (format "%s-map" symbol)))
                           (not (boundp symbol)))))
         (push symbol found))))
    (sort found #'string-lessp)))

(defun edn-bridge-view-tests-views ()
  "Return the modes that are views."
  (seq-difference (edn-bridge-view-tests-modes) edn-bridge-view-tests-others))

(ert-deftest edn-bridge-view-every-mode-is-made-by-the-macro ()
  (should (> (length (edn-bridge-view-tests-views)) 10))
  (dolist (mode (edn-bridge-view-tests-views))
    (ert-info ((symbol-name mode))
      (should (get mode 'edn-bridge-view)))))

(ert-deftest edn-bridge-view-no-buffer-has-a-mode-of-emacs ()
  "A buffer that the package shows has one of its own modes."
  (dolist (file (directory-files (expand-file-name ".." edn-bridge-test-directory)
                                 t "\\`edn-bridge.*\\.el\\'"))
    (with-temp-buffer
      (insert-file-contents file)
      (ert-info (file)
        (should-not (re-search-forward
                     "(\\(?:special\\|view\\|fundamental\\|tabulated-list\\)-mode)"
                     nil t))))))

(ert-deftest edn-bridge-view-every-mode-has-the-keys-of-views ()
  (dolist (mode (edn-bridge-view-tests-views))
    (with-temp-buffer
      (funcall mode)
      (dolist (key edn-bridge-view-tests-keys)
        (ert-info ((format "%s %s" mode key))
          (let ((command (key-binding (kbd key))))
            (should (commandp command))
            (should (eq command
                        (or (nth 1 (assoc key (get mode 'edn-bridge-view-keys)))
                            (lookup-key edn-bridge-view-map (kbd key)))))))))))

(ert-deftest edn-bridge-view-first-line-names-keys-and-fits ()
  (dolist (mode (edn-bridge-view-tests-views))
    (dolist (width '(33 60 80 120))
      (let ((line (edn-bridge-view-hint-line (get mode 'edn-bridge-view-hints)
                                             width)))
        (ert-info ((format "%s %d %s" mode width line))
          (should (<= (string-width line) width))
          (should (string-match-p (if (assoc "q" (get mode 'edn-bridge-view-hints))
                                      "g refresh  \\? keys\\'"
                                    "g refresh  q quit  \\? keys\\'")
                                  line)))))
    ;; In a frame of the usual width none is left out.
    (dolist (hint (get mode 'edn-bridge-view-hints))
      (ert-info ((format "%s %S" mode hint))
        (should (string-search
                 (format "%s %s" (car hint) (cdr hint))
                 (edn-bridge-view-hint-line (get mode 'edn-bridge-view-hints)
                                            80)))))))

(ert-deftest edn-bridge-view-jobs-point-is-not-in-the-heading ()
  (with-temp-buffer
    (edn-bridge-jobs-mode)
    (setq tabulated-list-entries '(("j1" ["running" "sleep" "j1"])))
    (tabulated-list-print t)
    (edn-bridge-view-leave-heading)
    (should (equal (tabulated-list-get-id) "j1"))))

;;;; Evil

(defun edn-bridge-view-tests-evil (form)
  "Return what FORM evaluates to in an Emacs with Evil and the package."
  (with-temp-buffer
    (apply #'call-process
           (expand-file-name invocation-name invocation-directory)
           nil (list t nil) nil "-Q" "--batch"
           (append
            (mapcan (lambda (folder) (list "-L" folder))
                    (cons (expand-file-name ".." edn-bridge-test-directory)
                          (edn-bridge-packages-tests-folders)))
            (list "--eval" (prin1-to-string
                            `(progn
                               (setq warning-minimum-level :emergency)
                               (require 'evil)
                               (evil-mode)
                               (require 'edn-bridge)
                               (princ (format "\n\x1e%S" ,form)))))))
    (goto-char (point-max))
    (should (search-backward "\x1e" nil t))
    (goto-char (1+ (point)))
    (read (current-buffer))))

(defmacro edn-bridge-view-tests-with-evil (&rest body)
  "Run BODY where Evil is there."
  `(progn
     (skip-unless (and edn-bridge-packages-tests-folder
                       (not (edn-bridge-packages-tests-missing '(evil)))))
     ,@body))

(ert-deftest edn-bridge-view-keys-are-the-modes-in-each-evil-state ()
  (edn-bridge-view-tests-with-evil
   (should
    (equal
     (edn-bridge-view-tests-evil
      `(let ((wrong nil))
         (dolist (mode ',(edn-bridge-view-tests-views))
           (with-temp-buffer
             (rename-buffer "*view*" t)
             (funcall mode)
             (insert-before-markers "")
             (unless (eq evil-state 'motion)
               (push (list mode 'begins-in evil-state) wrong))
             (dolist (state '(motion normal visual))
               (evil-change-state state)
               (dolist (row (append (get mode 'edn-bridge-view-keys)
                                    (mapcar #'list ',edn-bridge-view-tests-keys)))
                 (let ((found (key-binding (kbd (car row))))
                       (wanted (or (nth 1 (assoc (car row)
                                                 (get mode 'edn-bridge-view-keys)))
                                   (lookup-key edn-bridge-view-map
                                               (kbd (car row))))))
                   (unless (eq found wanted)
                     (push (list mode state (car row) found) wrong))))
               ;; What moves is Evil's, unless the mode has the key itself.
               (dolist (pair '(("j" . evil-next-line) ("k" . evil-previous-line)
                               ("h" . evil-backward-char)
                               ("l" . evil-forward-char)))
                 (unless (eq (key-binding (car pair)) (cdr pair))
                   (push (list mode state (car pair) (key-binding (car pair)))
                         wrong))))))
         wrong))
     nil))))

(ert-deftest edn-bridge-view-state-of-the-evil-user-stays ()
  (edn-bridge-view-tests-with-evil
   (should
    (equal
     (edn-bridge-view-tests-evil
      '(progn
         (evil-set-initial-state 'edn-bridge-tree-mode 'normal)
         (with-temp-buffer
           (rename-buffer "*tree*" t)
           (edn-bridge-tree-mode)
           (list evil-state (key-binding "r")))))
     '(normal evil-replace)))))

(ert-deftest edn-bridge-view-leader-on-the-blank-stays-evils ()
  (edn-bridge-view-tests-with-evil
   (should
    (equal
     (edn-bridge-view-tests-evil
      '(progn
         (evil-set-leader '(normal visual motion) (kbd "SPC"))
         (evil-define-key '(normal visual motion) 'global
           (kbd "<leader>e") 'edn-bridge-command-map)
         (list
          (with-temp-buffer
            (rename-buffer "*tree*" t)
            (edn-bridge-tree-mode)
            (key-binding (kbd "SPC")))
          (with-temp-buffer
            (rename-buffer "*servers*" t)
            (edn-bridge-mcp-mode)
            (key-binding (kbd "SPC"))))))
     '(evil-send-leader edn-bridge-mcp-toggle)))))

(provide 'edn-bridge-view-tests)

;;; edn-bridge-view-tests.el ends here
